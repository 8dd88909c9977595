"""The parts of a prompt in other orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from backend.basins.slots import BLANK_LINE
from backend.errors import Refused
from backend.prompts import Prompt

NEEDS_PARTS = (
    "Orders can be changed where there are two parts or more: documents or few-shot examples with a question, or a "
    "text of paragraphs (a blank line between them) whose last one asks. Analyse such a prompt first."
)


def prompt_from(values: dict) -> Prompt:
    """The prompt of a study's parameters. Refused where it is none that has parts."""
    names = {field.name for field in fields(Prompt)}
    if not isinstance(values, dict) or not values or not values.keys() <= names:
        raise Refused(NEEDS_PARTS)
    values = dict(values)
    if "examples" in values:
        values["examples"] = [tuple(example) for example in values["examples"]]
    prompt = Prompt(**values)
    if len(parts_of(prompt)) < 2:
        raise Refused(NEEDS_PARTS)
    return prompt


def parts_of(prompt: Prompt) -> list:
    """What can change places: documents, examples, or all paragraphs but the last."""
    if prompt.documents is not None:
        return list(prompt.documents)
    if prompt.examples is not None:
        return list(prompt.examples)
    return [] if prompt.text is None else [p for p in BLANK_LINE.split(prompt.text.strip()) if p.strip()][:-1]


def ordered(prompt: Prompt, order: Sequence[int]) -> Prompt:
    """The same prompt with part order[s] at place s."""
    parts = parts_of(prompt)
    moved = [parts[number] for number in order]
    if prompt.documents is not None:
        return replace(prompt, documents=moved)
    if prompt.examples is not None:
        return replace(prompt, examples=moved)
    question = [p for p in BLANK_LINE.split(prompt.text.strip()) if p.strip()][-1]
    return replace(prompt, text="\n\n".join([*moved, question]))


def cyclic(count: int, shifts: int | None) -> list[list[int]]:
    """Cyclic shifts: with all of them (None) every part stands once at every place; else some, evenly spread.

    In shift c part (s - c) mod K stands at place s; the first is the order as given.
    """
    chosen = range(count) if shifts is None or shifts >= count else [at * count // shifts for at in range(shifts)]
    return [[(slot - shift) % count for slot in range(count)] for shift in chosen]

"""The parts of a prompt in other orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise

from backend.basins.slots import BLANK_LINE, TURNS, Slot, Slots, slots_of
from backend.errors import Refused
from backend.prompts import EncodedPrompt, Prompt

NEEDS_PARTS = (
    "Orders can be changed where there are two parts or more: documents or few-shot examples with a question, a text "
    "of paragraphs (a blank line between them) whose last one asks, or a chat of several rounds (a user's turn and the "
    "answer to it) that ends with a question of the user. Analyse such a prompt first."
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
        raise Refused(f"{too_few(prompt)}{NEEDS_PARTS}")
    return prompt


def too_few(prompt: Prompt) -> str:
    """What the prompt has too little of, as a sentence before what is needed."""
    count = len(parts_of(prompt))
    if prompt.chat and prompt.chat[-1].get("role") != "user":
        return "The last turn of this chat is not the user's, so it asks nothing. "
    if prompt.chat is not None:
        return f"This chat has {count} {'round' if count == 1 else 'rounds'} before its last question. "
    if prompt.text is not None:
        return f"This text has {count + 1} {'paragraph' if count == 0 else 'paragraphs'}. "
    return ""


def parts_of(prompt: Prompt) -> list:
    """What can change places: documents, examples, rounds of a chat, or all paragraphs but the last."""
    if prompt.documents is not None:
        return list(prompt.documents)
    if prompt.examples is not None:
        return list(prompt.examples)
    if prompt.chat is not None:
        return rounds_of(prompt.chat)[1]
    return [] if prompt.text is None else [p for p in BLANK_LINE.split(prompt.text.strip()) if p.strip()][:-1]


def rounds_of(chat: Sequence[dict]) -> tuple[list[dict], list[list[dict]]]:
    """What stays in front of a chat (the system's turns, a greeting), and its rounds: a user's turn and what answers
    it. The last turn, the user's question, is in neither; where another one is last, nothing can change places."""
    roles = [turn.get("role") for turn in chat]
    if roles[-1:] != ["user"]:
        return list(chat), []
    starts = [at for at, role in enumerate(roles) if role == "user"]
    return list(chat[: starts[0]]), [list(chat[start:stop]) for start, stop in pairwise(starts)]


def ordered(prompt: Prompt, order: Sequence[int]) -> Prompt:
    """The same prompt with part order[s] at place s."""
    parts = parts_of(prompt)
    moved = [parts[number] for number in order]
    if prompt.documents is not None:
        return replace(prompt, documents=moved)
    if prompt.examples is not None:
        return replace(prompt, examples=moved)
    if prompt.chat is not None:
        front = rounds_of(prompt.chat)[0]
        return replace(prompt, chat=[*front, *(turn for part in moved for turn in part), prompt.chat[-1]])
    question = [p for p in BLANK_LINE.split(prompt.text.strip()) if p.strip()][-1]
    return replace(prompt, text="\n\n".join([*moved, question]))


def part_word(prompt: Prompt) -> str:
    """What a part that changes places is called."""
    forms = {"documents": "document", "examples": "example", "chat": "round", "text": "paragraph"}
    return next(word for form, word in forms.items() if getattr(prompt, form) is not None)


def places_in(prompt: Prompt, encoded: EncodedPrompt) -> Slots:
    """The parts that change places, in the order of this prompt: the parts of its basin, but whole rounds of a chat."""
    found = slots_of(encoded.segments, encoded.tokens)
    if prompt.chat is None:
        return found
    turns = [segment for segment in encoded.segments if segment.kind in TURNS]
    if len(turns) != len(prompt.chat):
        raise Refused(
            f"The chat has {len(prompt.chat)} turns and the template writes {len(turns)} of them as they are, so the "
            "parts that would change places cannot be told. Give the texts as documents with a question."
        )
    front, rounds = rounds_of(prompt.chat)
    edges = [len(front)]
    for one in rounds:
        edges.append(edges[-1] + len(one))
    parts = tuple(
        Slot(f"round {number}", turns[first].start, turns[last - 1].end)
        for number, (first, last) in enumerate(pairwise(edges), 1)
    )
    return Slots("round", parts, found.question, found.last)


def refuse_what_changes(prompt: Prompt, orders: Sequence[Sequence[int]], read: Sequence[EncodedPrompt]) -> None:
    """Refused where a round or a paragraph is other tokens at another place: then place and content cannot be taken
    apart exactly. Documents and examples stand behind markers of their own, which keep them apart."""
    if prompt.documents is not None or prompt.examples is not None:
        return
    first: dict[int, tuple[int, list[int]]] = {}
    for order, encoded in zip(orders, read, strict=True):
        parts = places_in(ordered(prompt, order), encoded).parts
        if len(parts) != len(order):
            raise Refused(f"{len(order)} parts were given and {len(parts)} can be told apart in the tokens.")
        for place, (part, slot) in enumerate(zip(order, parts, strict=True)):
            ids = encoded.token_ids[slot.start : slot.stop]
            where, known = first.setdefault(part, (place, ids))
            if ids != known:
                raise Refused(
                    f"{part_word(prompt).capitalize()} {part + 1} is read as other tokens at place {place + 1} than at "
                    f"place {where + 1} (the tokenizer or the chat template writes it differently there), so it cannot "
                    "change places exactly. Give the texts as documents with a question."
                )


def cyclic(count: int, shifts: int | None) -> list[list[int]]:
    """Cyclic shifts: with all of them (None) every part stands once at every place; else some, evenly spread.

    In shift c part (s - c) mod K stands at place s; the first is the order as given.
    """
    chosen = range(count) if shifts is None or shifts >= count else [at * count // shifts for at in range(shifts)]
    return [[(slot - shift) % count for slot in range(count)] for shift in chosen]

"""A text of a wanted length with a needle at a wanted depth; where it lies is read off the tokenizer's offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.basins.prose import look_alikes, sentences
from backend.errors import Refused
from backend.models import LoadedModel
from backend.prompt_forms import Draft
from backend.prompts import EncodedPrompt, Prompt, encode_draft, tokenise

START = "Read the text and answer the question about it.\n\n"
LEAST_TOKENS = 8  # no sentence of the prose has fewer
ENOUGH = 0.8  # of the tokens that were asked for: a text of one's own that has fewer is too short


@dataclass(frozen=True)
class Haystack:
    """What the model reads."""

    encoded: EncodedPrompt
    needle: range  # positions of its tokens
    others: tuple[range, ...]  # of the look-alikes
    question: int  # position of the question's first token

    @property
    def depth(self) -> float:
        """Where the needle really lies, 0 = at the start of the text, 1 = just before the question."""
        return self.needle.start / max(self.question - len(self.needle), 1)


def haystack(
    model: LoadedModel,
    needle: str,
    question: str,
    cue: str,
    length: int,
    depth: float,
    *,
    alike: int | Sequence[str],
    seed: int,
    hay: Sequence[str] = (),
) -> Haystack:
    """As many whole sentences as fit into `length` tokens, needle and look-alikes between them.

    alike: look-alikes, or how many of the project's. hay: sentences; none = prose of the project.
    """
    if model.tokenizer is None:
        raise Refused(f"{model.name} came without a tokenizer, so no text can be written for it.")
    lines = list(hay) or sentences(length // LEAST_TOKENS + 1, seed)
    others = look_alikes(alike, seed) if isinstance(alike, int) else list(alike)
    low, high = 0, len(lines)
    while low < high:  # the most sentences that fit
        middle = (low + high + 1) // 2
        text = draft_of(needle, question, cue, lines[:middle], others, depth).text
        if len(tokenise(model.tokenizer, text, add_special=True, parse_special=False)["input_ids"]) <= length:
            low = middle
        else:
            high = middle - 1
    draft = draft_of(needle, question, cue, lines[:low], others, depth)
    found = encode_draft(model, Prompt(text=draft.text), draft)
    if len(found.token_ids) > length:
        raise Refused(
            f"Needle, look-alikes and question take {len(found.token_ids):,} tokens alone; {length:,} were allowed. "
            "Choose longer texts, a shorter needle or fewer look-alikes."
        )
    if low == len(lines) and len(found.token_ids) < ENOUGH * length:
        raise Refused(
            f"With the needle the text has {len(found.token_ids):,} tokens and {length:,} were asked for. Give a "
            "longer text or choose shorter lengths."
        )
    places = {segment.name: range(segment.start, segment.end) for segment in found.segments}
    if "needle" not in places:
        raise Refused("The needle has no token of its own in this text. Write a longer one.")
    alikes = tuple(place for name, place in places.items() if name.startswith("look-alike"))
    return Haystack(found, places["needle"], alikes, places["question"].start)


def draft_of(needle: str, question: str, cue: str, lines: Sequence[str], others: Sequence[str], depth: float) -> Draft:
    """The text with its segments as spans of characters."""
    at = round(depth * len(lines))
    every = {round((number + 0.5) * len(lines) / max(len(others), 1)): [] for number in range(len(others))}
    for number, other in enumerate(others):
        every[round((number + 0.5) * len(lines) / len(others))].append((number, other))
    draft = Draft()
    draft.add(START)
    for place in range(len(lines) + 1):
        for number, other in every.get(place, []):
            draft.add(other, f"look-alike {number + 1}", "text")
            draft.add(" ")
        if place == at:
            draft.add(needle, "needle", "text")
            draft.add(" ")
        if place < len(lines):
            draft.add(lines[place] + " ")
    draft.add("\n\n")
    begun = f" {cue.strip()}" if cue.strip() else ""
    draft.add(f"Question: {question}\nAnswer:{begun}", "question", "question")
    return draft

"""The parts of a prompt that compete for attention: documents, examples, turns or paragraphs, and the question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from backend.errors import Refused
from backend.types import Segment, Token

TURNS = ("system", "user", "assistant", "tool")
BLANK_LINE = re.compile(r"\n\s*\n")
NO_PARTS = (
    "This prompt has one part only, so nothing can be compared by place. Give documents with a question, few-shot "
    "examples, a chat of several turns, or a text of several paragraphs (a blank line between them)."
)


@dataclass(frozen=True)
class Slot:
    """One part: tokens start to before stop. Markers such as "Document 3:" belong to no slot."""

    name: str
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Slots:
    """The parts in the order of the prompt, and the rows that look at them."""

    what: str  # "document", "example", "turn", "paragraph"
    parts: tuple[Slot, ...]
    question: Slot | None
    last: int  # the last token of the prompt, before anything was generated

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def names(self) -> list[str]:
        return [part.name for part in self.parts]

    def rows(self, looking: str) -> slice:
        """The query rows: "question" (all tokens of the question), "last", or "first" (the pooling token)."""
        if looking == "question" and self.question is not None:
            return slice(self.question.start, self.question.stop)
        if looking == "last":
            return slice(self.last, self.last + 1)
        if looking == "first":
            return slice(0, 1)
        raise Refused(f"Rows that look: expected question, last or first, got {looking!r}.")

    def group_of(self, n_tokens: int) -> list[int]:
        """The number of the part each token belongs to, -1 for none."""
        groups = [-1] * n_tokens
        for number, part in enumerate(self.parts):
            groups[part.start : part.stop] = [number] * part.length
        return groups


def slots_of(segments: Sequence[Segment], tokens: Sequence[Token]) -> Slots:
    """The parts of an analysed prompt. Refused with what to do where there is only one."""
    kinds = {segment.kind for segment in segments}
    generated = [segment.start for segment in segments if segment.kind == "generated"]
    last = (generated[0] if generated else len(tokens)) - 1
    for kind in ("document", "example"):
        if kind in kinds:
            question = [segment for segment in segments if segment.kind == "question"]
            return made(kind, [s for s in segments if s.kind == kind], question[-1] if question else None, last)
    turns = [segment for segment in segments if segment.kind in TURNS]
    if turns:
        asked = max((at for at, turn in enumerate(turns) if turn.kind == "user"), default=len(turns) - 1)
        return made("turn", turns[:asked], turns[asked], last)
    paragraphs = paragraphs_of(tokens[: last + 1])
    return made("paragraph", paragraphs[:-1], paragraphs[-1] if paragraphs else None, last)


def made(what: str, parts: Sequence[Segment], question: Segment | None, last: int) -> Slots:
    """Refused where there is nothing to compare."""
    if not parts:
        raise Refused(NO_PARTS)
    asked = None if question is None else Slot(question.name, question.start, question.end)
    return Slots(what, tuple(Slot(part.name, part.start, part.end) for part in parts), asked, last)


def paragraphs_of(tokens: Sequence[Token]) -> list[Segment]:
    """Paragraphs of a plain text: a token belongs to the one in which its last character that is no space lies."""
    text = "".join(token.text for token in tokens)
    edges = [match.end() for match in BLANK_LINE.finditer(text.rstrip())]
    places: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    at = 0
    for token in tokens:
        own = token.text.rstrip()
        if own and not token.is_special:
            last = at + len(own) - 1
            places[sum(edge <= last for edge in edges)].append(token.position)
        at += len(token.text)
    return [
        Segment(f"paragraph {number}", "paragraph", found[0], found[-1] + 1)
        for number, found in enumerate([place for place in places if place], 1)
    ]

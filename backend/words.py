"""Tokens gathered into words, sentences and segments, and attention between those instead of between tokens.

Attention to a group is the sum over its tokens, attention from a group the mean over its rows: so each row still adds
up to what it did before.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.tokens import visible
from backend.types import Segment, Token

UNITS = ("token", "word", "sentence", "segment")
ENDINGS = ".!?…。！？؟।"
CLOSING = "\"')]}»”’」』"


@dataclass(frozen=True)
class Group:
    """A run of tokens [start, end) that is shown as one."""

    start: int
    end: int
    text: str  # what was typed; '' for tokens without text
    label: str  # for display: never blank
    special: bool = False


def groups(tokens: Sequence[Token], unit: str, segments: Sequence[Segment] = ()) -> list[Group]:
    """The units of a text, in reading order; together they hold every token once. tokens: those of one side."""
    if not tokens:
        return []
    if unit == "token":
        starts = list(range(len(tokens)))
    elif unit == "word":
        starts = [at for at, token in enumerate(tokens) if at == 0 or begins_word(tokens[at - 1], token)]
    elif unit == "sentence":
        starts = [at for at in range(len(tokens)) if at == 0 or begins_sentence(tokens, at)]
    elif unit == "segment":
        edges = {0} | {edge for segment in segments for edge in (segment.start, segment.end)}
        starts = sorted(edge for edge in edges if 0 <= edge < len(tokens))
    else:
        raise ValueError(f"unit: expected one of {', '.join(UNITS)}, got {unit!r}.")
    return [group_of(tokens, start, end) for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True)]


def begins_word(before: Token, token: Token) -> bool:
    """Whether a token begins another word. Spaces go with what follows; line breaks and special tokens stand alone."""
    if token.is_special or before.is_special or is_break(token) or is_break(before):
        return True
    if token.text and token.text.isspace():
        return not before.text.isspace()
    return token.word != before.word and not before.text.isspace()


def is_break(token: Token) -> bool:
    """Whether a token is white space with a line break in it."""
    return token.text.isspace() and "\n" in token.text


def begins_sentence(tokens: Sequence[Token], at: int) -> bool:
    """Whether a sentence begins here: after an ending that white space follows, after a line break, at special ones."""
    token, before = tokens[at], tokens[at - 1]
    if token.is_special or before.is_special:
        return True
    if not token.text:
        return False  # part of a character
    if before.text.endswith("\n"):
        return not token.text.isspace()
    if token.text.isspace() or token.text.lstrip()[0].islower():
        return False  # white space goes with the sentence before; "he asked" goes on
    said = before.text
    back = at - 1
    while back > 0 and not said.strip().rstrip(CLOSING):
        back -= 1
        said = tokens[back].text + said
    closed = said.rstrip().rstrip(CLOSING)
    apart = token.text[0].isspace() or said[-1:].isspace() or said.rstrip()[-1:] in "。！？"
    return apart and closed[-1:] != "" and closed[-1] in ENDINGS


def group_of(tokens: Sequence[Token], start: int, end: int) -> Group:
    """One group with its text and label."""
    members = tokens[start:end]
    if len(members) == 1:
        return Group(start, end, members[0].text, members[0].label, members[0].is_special)
    whole = all(member.text or not member.bytes for member in members[-1:])
    label = "".join(shown(member) for member in members)
    text = "".join(member.text for member in members)
    return Group(start, end, text, label if whole and label else members[0].label, all(m.is_special for m in members))


def shown(token: Token) -> str:
    """A token inside a group: parts of a character say nothing, its last part says the character."""
    if token.is_special or (not token.text and not token.bytes):
        return token.label
    return visible(token.text)


def is_delimiter(token: Token) -> bool:
    """Punctuation, a line break, or a special token."""
    core = token.text.strip()
    if token.is_special or ("\n" in token.text and not core):
        return True
    return bool(core) and all(unicodedata.category(character)[0] == "P" for character in core)


def numbers_of(found: Sequence[Group], n: int) -> np.ndarray:
    """[n] the group of every token."""
    number = np.zeros(n, np.int64)
    for at, group in enumerate(found):
        number[group.start : group.end] = at
    return number


def gather(
    weights: np.ndarray,
    visible: np.ndarray,
    rows: np.ndarray,
    keys: np.ndarray,
    n_rows: int,
    n_keys: int,
    *,
    sees: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Attention between groups: weights and visibility [n_rows, n_keys] of a map, or of a window of one, [rows, keys].

    rows, keys: the group of every row and key, in reading order. To a group: sum over its keys. From a group: mean over
    those of its rows that see any key (`sees`, needed where the window leaves keys out). A cell is visible where one of
    its cells is.
    """
    if weights.shape != visible.shape or weights.shape != (len(rows), len(keys)):
        raise ValueError(f"expected a map of {len(rows)} x {len(keys)}, got {weights.shape} and {visible.shape}.")
    sees = visible.any(1) if sees is None else sees
    kept = np.where(visible & sees[:, None], weights, 0.0)
    summed = by_group(by_group(kept, keys, n_keys, 1), rows, n_rows, 0)
    seen = by_group(by_group(visible, keys, n_keys, 1), rows, n_rows, 0) > 0
    count = np.bincount(rows[sees], minlength=n_rows)[:, None]
    return np.divide(summed, count, out=np.zeros_like(summed), where=count > 0), seen


def by_group(values: np.ndarray, numbers: np.ndarray, n: int, axis: int) -> np.ndarray:
    """Sums over the members of each of n groups along one axis; the members of a group lie side by side."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    sums = np.add.reduceat(values, starts, axis=axis, dtype=np.float64)
    if len(starts) == n:
        return sums
    found = np.zeros((n, values.shape[1]) if axis == 0 else (values.shape[0], n))
    found[numbers[starts] if axis == 0 else (slice(None), numbers[starts])] = sums
    return found

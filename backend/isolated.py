"""Texts of people inside a sentence of ours: what turns the direction of writing must not turn ours."""

from __future__ import annotations

import unicodedata

TURNING = {"LRE", "RLE", "LRO", "RLO", "LRI", "RLI", "FSI"}
FIRST_STRONG_ISOLATE, POP_ISOLATE = "\u2068", "\u2069"


def isolated(text: str) -> str:
    """The text as it is, or between isolates where it holds a control of direction or letters written right to left."""
    kinds = {unicodedata.bidirectional(character) for character in text}
    if not kinds & (TURNING | {"R", "AL"}):
        return text
    closed = sum(unicodedata.bidirectional(character) in ("LRI", "RLI", "FSI") for character in text)
    closed -= text.count(POP_ISOLATE)
    return f"{FIRST_STRONG_ISOLATE}{text}{POP_ISOLATE * max(closed, 0)}{POP_ISOLATE}"

"""Sets of prompts: pasted, uploaded as text or JSONL, or the one that comes with Headwater.

A line that cannot be read costs itself, not the set: it is left out and named with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from backend.errors import Refused

MOST_PROMPTS = 1000
MOST_CHARACTERS = 4_000_000
NAMES = ("text", "prompt", "content")  # of the field that holds the text, the first one found


@dataclass(frozen=True)
class LeftOut:
    """A part of a set that could not be read."""

    line: int  # from 1
    reason: str


@dataclass(frozen=True)
class PromptSet:
    """Texts in their order, and what was left out."""

    texts: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()


@cache
def natural() -> PromptSet:
    """Forty short texts of many kinds, written for Headwater."""
    return PromptSet(tuple(paragraphs((Path(__file__).parent / "natural.txt").read_text("utf-8"))))


def read_set(text: str) -> PromptSet:
    """A pasted or uploaded set: JSONL where its first line is an object or a string of JSON; else text, one prompt per
    paragraph where there are blank lines, one per line where there are none. Refused where nothing could be read."""
    if len(text) > MOST_CHARACTERS:
        raise Refused(
            f"The set has {len(text):,} characters and at most {MOST_CHARACTERS:,} are read. Make it smaller."
        )
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = read_jsonl(text) if text.lstrip()[:1] in ("{", '"') else PromptSet(tuple(read_text(text)))
    if not found.texts:
        why = "".join(f" Line {one.line}: {one.reason}." for one in found.left_out[:3])
        raise Refused(f"The set holds no prompt: expected texts apart by blank lines, or lines of JSON.{why}")
    if len(found.texts) > MOST_PROMPTS:
        raise Refused(f"The set has {len(found.texts):,} prompts and at most {MOST_PROMPTS:,} are read. Cut it.")
    return found


def read_bytes(data: bytes) -> PromptSet:
    """A file as a set. Refused where it is not text."""
    try:
        return read_set(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refused(f"The file is not text in UTF-8 (byte {error.start}). Save it as UTF-8.") from None


def read_text(text: str) -> list[str]:
    """One prompt per paragraph, or per line where no line is blank."""
    found = paragraphs(text)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return found if len(found) > 1 else lines


def paragraphs(text: str) -> list[str]:
    """What stands between blank lines."""
    parts: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            parts[-1].append(line.rstrip())
        elif parts[-1]:
            parts.append([])
    return ["\n".join(part) for part in parts if part]


def read_jsonl(text: str) -> PromptSet:
    """One prompt per line: a string, or an object with a text."""
    texts, left_out = [], []
    for number, line in numbered(text):
        try:
            texts.append(text_of(json.loads(line)))
        except ValueError as error:
            reason = "it is not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
            left_out.append(LeftOut(number, reason))
        except RecursionError:
            left_out.append(LeftOut(number, "it is nested too deeply"))
    return PromptSet(tuple(texts), tuple(left_out))


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line


def text_of(value: object) -> str:
    """The text of one line; ValueError with the reason where it has none."""
    if isinstance(value, dict):
        name = next((name for name in NAMES if name in value), None)
        if name is None:
            raise ValueError(f"it has no field {' or '.join(NAMES)}")
        value = value[name]
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {type(value).__name__}")
    if not value.strip():
        raise ValueError("its text is empty")
    return value

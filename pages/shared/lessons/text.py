"""The sentences of a lesson as pieces, for the page and for the hand-out.

What may be written is little: paragraphs, lists with "- ", **strong**, `code`, and numbers [38 %](name).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PIECE = re.compile(r"\*\*(?P<strong>.+?)\*\*|`(?P<code>[^`]+)`|\[(?P<number>[^\]]+)\]\((?P<name>[a-z][a-z0-9_]*)\)")
PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")  # all of ASCII's: each may stand behind a backslash in Markdown

NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Piece:
    """A run of letters of one sort."""

    sort: str  # plain, strong, code, number
    text: str
    name: str = ""  # of a number


@dataclass(frozen=True)
class Block:
    """A paragraph or one item of a list."""

    item: bool
    pieces: tuple[Piece, ...]


def blocks(text: str) -> list[Block]:
    """The paragraphs and items of a text."""
    found: list[tuple[bool, str]] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
        for at, line in enumerate(lines):
            item = line.startswith("- ")
            if item or at == 0:
                found.append((item, line.removeprefix("- ")))
            else:
                found[-1] = (found[-1][0], f"{found[-1][1]} {line}")
    return [Block(item, tuple(pieces(line))) for item, line in found]


def pieces(line: str) -> list[Piece]:
    """The pieces of one paragraph."""
    found, at = [], 0
    for match in PIECE.finditer(line):
        if match.start() > at:
            found.append(Piece("plain", line[at : match.start()]))
        found.append(Piece(match.lastgroup if match.lastgroup != "name" else "number", *_content(match)))
        at = match.end()
    return [*found, Piece("plain", line[at:])] if at < len(line) else found


def _content(match: re.Match) -> tuple[str, str]:
    text = next(match[sort] for sort in ("strong", "code", "number") if match[sort] is not None)
    return text, match["name"] or ""


def numbers_in(text: str) -> list[tuple[str, str]]:
    """(name, as written) of every number in a text."""
    return [(piece.name, piece.text) for block in blocks(text) for piece in block.pieces if piece.sort == "number"]


def without_numbers(text: str) -> str:
    """The text with its numbers taken out: what is left holds none."""
    return " ".join(piece.text for block in blocks(text) for piece in block.pieces if piece.sort != "number")


def to_markdown(text: str, links: dict[str, str]) -> str:
    """For Streamlit, everything escaped that is not ours; a number leads to links[name]."""
    written = []
    for block in blocks(text):
        line = "".join(_markdown(piece, links) for piece in block.pieces)
        written.append(f"- {line}" if block.item else line)
    return "\n\n".join(written)


def as_text(text: str) -> str:
    """Any text for a place where Streamlit reads Markdown, shown as it is."""
    return PUNCTUATION.sub(r"\\\1", text)


def _markdown(piece: Piece, links: dict[str, str]) -> str:
    if piece.sort == "code":
        return f"`{piece.text}`"
    plain = as_text(piece.text)
    if piece.sort == "number":
        plain = plain.replace(" ", NO_BREAK)
        return f"[**{plain}**]({links[piece.name]})" if piece.name in links else f"**{plain}**"
    return f"**{plain}**" if piece.sort == "strong" else plain

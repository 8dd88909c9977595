"""The token table: what every position of a prompt says, shows and belongs to.

Joined, the texts of all tokens give the prompt exactly. Tokenizers report spans with gaps (white space that they drop)
and overlaps (a character split over several tokens); `cut` turns them into consecutive pieces.
"""

from __future__ import annotations

import codecs
import itertools
import json
import re
import unicodedata
from collections.abc import Sequence
from functools import cache

from backend.types import Segment, Token

Span = tuple[int, int] | None  # characters [start, end); None = the token stands for no text

MARKS = {" ": "·", "\n": "↵", "\t": "⇥"}
JOINERS = "\u200c\u200d"  # keep emoji and Indic clusters together; invisible alone
BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def token_table(
    tokenizer,
    token_ids: Sequence[int],
    text: str,
    segments: Sequence[Segment],
    *,
    spans: Sequence[Span] | None = None,
    typed: Sequence[bool] | None = None,
) -> list[Token]:
    """One Token per id.

    `spans` are the character spans that the tokenizer reported; without them the texts are decoded from the ids, and
    `text` is not looked at. `typed` marks ids that are ordinary text although their number is a special token's.
    Without a tokenizer the labels are the ids.
    """
    if tokenizer is None:
        pieces, raw_bytes, special = [""] * len(token_ids), [b""] * len(token_ids), [False] * len(token_ids)
    else:
        pieces = [piece or "" for piece in tokenizer.convert_ids_to_tokens(list(token_ids))]
        known = set(tokenizer.all_special_ids)
        special = [i in known and not (typed and typed[k]) for k, i in enumerate(token_ids)]
        raw_bytes = spell(tokenizer, pieces, token_ids)
    if spans is None:
        text, spans = spans_of_bytes(raw_bytes)
    texts = cut(text, spans)
    parts = split_characters(text, spans)
    labels = [
        visible(pieces[place]) if special[place] else label(texts[place], parts[place], raw_bytes[place], token_id)
        for place, token_id in enumerate(token_ids)
    ]
    words = word_numbers(texts, special)
    return [
        Token(
            position=place,
            token_id=int(token_ids[place]),
            text=texts[place],
            label=labels[place],
            raw=pieces[place],
            bytes=raw_bytes[place],
            start=-1 if empty(spans[place]) else spans[place][0],
            end=-1 if empty(spans[place]) else spans[place][1],
            is_special=special[place],
            segment=next((k for k, s in enumerate(segments) if s.start <= place < s.end), -1),
            word=words[place],
        )
        for place in range(len(token_ids))
    ]


def empty(span: Span) -> bool:
    """Whether a token stands for no text."""
    return span is None or span[1] <= span[0]


def cut(text: str, spans: Sequence[Span]) -> list[str]:
    """Consecutive pieces of `text`, one per span.

    White space that the tokenizer dropped goes to the token after it (at the end: to the last one). A character split
    over several tokens goes to the last of them, the others hold ''.
    """
    real = [place for place, span in enumerate(spans) if not empty(span)]
    pieces, before = [""] * len(spans), 0
    for place, after in itertools.zip_longest(real, real[1:]):
        end = len(text) if after is None else max(before, min(spans[place][1], spans[after][0]))
        pieces[place], before = text[before:end], end
    return pieces


def spans_of_bytes(raw_bytes: Sequence[bytes]) -> tuple[str, list[Span]]:
    """The text that tokens spell, and the characters each of them touches. Bytes that are no UTF-8 become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text, character, waiting = "", [], 0  # character: the one that each byte belongs to
    everything = b"".join(raw_bytes)
    for place in range(len(everything)):
        new = decoder.decode(everything[place : place + 1], place + 1 == len(everything))
        waiting += 1
        if new:
            character += [len(text)] * (waiting - 1) + [len(text) + len(new) - 1]
            text, waiting = text + new, 0
    spans, at = [], 0
    for chunk in raw_bytes:
        spans.append((character[at], character[at + len(chunk) - 1] + 1) if chunk else None)
        at += len(chunk)
    return text, spans


def split_characters(text: str, spans: Sequence[Span]) -> list[str]:
    """For every token that ends inside a character, or ends one begun before: "世[1/3]"; else ''."""
    parts = [""] * len(spans)
    groups: dict[int, list[int]] = {}
    for place, span in enumerate(spans):
        if not empty(span):
            groups.setdefault(span[1], []).append(place)
    for end, places in groups.items():
        for number, place in enumerate(places if len(places) > 1 else ()):
            parts[place] = f"{visible(text[end - 1 : end])}[{number + 1}/{len(places)}]"
    return parts


def label(text: str, part: str, raw_bytes: bytes, token_id: int) -> str:
    """What is shown for an ordinary token: never blank, never U+FFFD."""
    if "\ufffd" in text and "\ufffd".encode() not in raw_bytes:
        return " ".join(f"0x{byte:02X}" for byte in raw_bytes)
    if part:
        return visible(text[: len(text) - len(text.lstrip())]) + part
    return visible(text) or f"#{token_id}"


def visible(text: str) -> str:
    """The text with every invisible character shown: ' ' as '·', newline '↵', tab '⇥', others by their number."""
    shown = []
    for character in text:
        kind = unicodedata.category(character)
        if character in MARKS:
            shown.append(MARKS[character])
        elif (
            character == "\ufffd" or kind[0] == "Z" or (kind[0] == "C" and not (character in JOINERS and len(text) > 1))
        ):
            shown.append(f"⟨U+{ord(character):04X}⟩")
        elif not shown and kind[0] == "M":
            shown.append(f"◌{character}")  # a mark without a letter to stand on
        else:
            shown.append(character)
    return "".join(shown)


def word_numbers(texts: Sequence[str], special: Sequence[bool]) -> list[int]:
    """The word of every token: runs of letters and digits, or of other marks, between white space; -1 = none."""
    words, word, last = [-1] * len(texts), -1, ""
    waiting: list[int] = []  # parts of a character that a later token ends
    for place, text in enumerate(texts):
        core = text.strip()
        if special[place] or (text and not core):
            last, waiting = "", []
            continue
        if not text:
            waiting.append(place)
            continue
        if text[0].isspace() or not last or last.isspace() or last.isalnum() != core[0].isalnum():
            word += 1
        for part in [*waiting, place]:
            words[part] = word
        last, waiting = text[-1], []
    return words


# --- what a vocabulary's pieces stand for ---------------------------------------------------------------------------


def spell(tokenizer, pieces: Sequence[str], token_ids: Sequence[int]) -> list[bytes]:
    """The bytes that the pieces of a vocabulary stand for."""
    kind, added = dialect(tokenizer), set(getattr(tokenizer, "added_tokens_decoder", {}))
    return [
        piece.encode("utf-8", "replace") if token_id in added else piece_bytes(kind, piece)
        for piece, token_id in zip(pieces, token_ids, strict=True)
    ]


def dialect(tokenizer) -> str:
    """How pieces spell text: "bytes" (GPT-2's alphabet), "wordpiece" (## continues), "sentencepiece" (▁), "plain"."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return "sentencepiece" if any(piece.startswith("▁") for piece in tokenizer.get_vocab()) else "plain"
    parts = (backend.decoder, backend.pre_tokenizer)
    rules = json.dumps([json.loads(part.__getstate__()) for part in parts if part is not None], ensure_ascii=False)
    marks = (("bytes", "ByteLevel"), ("wordpiece", "WordPiece"), ("sentencepiece", "▁"))
    return next((name for name, mark in marks if mark in rules), "plain")


@cache
def byte_alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: printable ones stand for themselves, the others start at U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


def piece_bytes(kind: str, piece: str) -> bytes:
    """The bytes of one piece in its dialect."""
    if kind == "bytes" and all(letter in byte_alphabet() for letter in piece):
        return bytes(byte_alphabet()[letter] for letter in piece)
    if kind == "wordpiece":
        return piece.removeprefix("##").encode("utf-8", "replace")
    if kind == "sentencepiece":
        byte = BYTE_PIECE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode("utf-8", "replace")
    return piece.encode("utf-8", "replace")

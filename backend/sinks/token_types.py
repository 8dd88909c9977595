"""What kind of token a sink is: begin of text, first, newline, full stop, comma, digits ..."""

from __future__ import annotations

from collections.abc import Sequence

from backend.types import Token

BEGIN, FIRST, SPECIAL = "begin of text", "first token", "special"
NEWLINE, STOP, COMMA, PUNCTUATION, DIGITS, OTHER = "newline", "full stop", "comma", "punctuation", "digits", "other"
TYPES = (BEGIN, FIRST, SPECIAL, NEWLINE, STOP, COMMA, PUNCTUATION, DIGITS, OTHER)
MARKS = frozenset({NEWLINE, STOP, COMMA, PUNCTUATION})  # what counts as punctuation in the mass budget
BEGIN_PIECES = frozenset(
    {"<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "[CLS]"}
)  # for analyses that do not know the model's own


def token_types(tokens: Sequence[Token], begin: int | None = None) -> list[str]:
    """The type of every token of one side, in order. `begin`: id of the model's begin-of-text token, where known."""
    return [type_of(token, place == 0, begin) for place, token in enumerate(tokens)]


def type_of(token: Token, first: bool, begin: int | None = None) -> str:
    """The type of one token."""
    if is_begin(token, begin):
        return BEGIN
    if first:
        return FIRST
    if token.is_special:
        return SPECIAL
    text = (token.text or token.raw).strip(" ")
    if text and not text.strip():
        return NEWLINE if "\n" in text or "\r" in text else OTHER
    text = text.strip()
    if text and all(character in ".!?" for character in text):
        return STOP
    if text == ",":
        return COMMA
    if text.isdecimal():
        return DIGITS
    if text and not any(character.isalnum() for character in text):
        return PUNCTUATION
    return OTHER


def is_begin(token: Token, begin: int | None = None) -> bool:
    """Whether this is a begin-of-text token that the tokenizer put there or a person typed as one."""
    if not token.is_special:
        return False
    return token.token_id == begin if begin is not None else token.raw in BEGIN_PIECES


def begin_positions(tokens: Sequence[Token], begin: int | None = None) -> list[int]:
    """Positions that count as begin of text: none, one, or several where a template and the tokenizer both put one."""
    return [place for place, token in enumerate(tokens) if is_begin(token, begin)]

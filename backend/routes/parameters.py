"""What a request may say: every part of an address is read by one of these, or refused with a sentence."""

from __future__ import annotations

import re

from backend.errors import HeadwaterError

WHOLE = re.compile(r"[0-9]{1,9}")
SPAN = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
KINDS = ("self", "encoder", "decoder", "cross")
MOST_SIZE = 4096  # values per side of an answer
MOST_VALUES = MOST_SIZE * MOST_SIZE


class BadRequest(HeadwaterError):
    """A part of the address is not what it must be; the text says which and what was expected."""


def whole(name: str, text: str) -> int:
    """A whole number from 0."""
    if not WHOLE.fullmatch(text):
        raise BadRequest(f"{name}: expected a whole number from 0, got {_quote(text)}.")
    return int(text)


def span(name: str, text: str | None, length: int) -> slice:
    """`start:stop` inside an axis of `length` tokens; the whole axis where nothing is given."""
    if text is None:
        return slice(0, length)
    match = SPAN.fullmatch(text)
    start, stop = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 0 <= start < stop <= length:
        raise BadRequest(f"{name}: expected start:stop with 0 <= start < stop <= {length}, got {_quote(text)}.")
    return slice(start, stop)


def size(text: str | None, window: tuple[int, int], default: int = 256) -> int:
    """Most values per side of the answer, 1 to 4096; as many as the window has where that is more."""
    most = max(MOST_SIZE, *window)
    number = default if text is None else int(text) if WHOLE.fullmatch(text) else 0
    if not 1 <= number <= most:
        raise BadRequest(f"size: expected a whole number from 1 to {most}, got {_quote(text or '')}.")
    if min(number, window[0]) * min(number, window[1]) > MOST_VALUES:
        raise BadRequest(f"size: an answer holds at most {MOST_VALUES} values; ask for a smaller size or window.")
    return number


def one_of(name: str, text: str | None, options: tuple[str, ...]) -> str:
    """One of a few words; the first where nothing is given."""
    if text is None:
        return options[0]
    if text not in options:
        raise BadRequest(f"{name}: expected one of {', '.join(options)}, got {_quote(text)}.")
    return text


def only(given: object, allowed: tuple[str, ...]) -> None:
    """Refuses parameters that the address does not have, so that a misspelt one is not silently ignored."""
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        expected = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
        raise BadRequest(f"This address has no parameter {_quote(unknown[0])}; {expected}.")


def _quote(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")

"""Ids of analyses and studies: unguessable, safe in file names and addresses, checked whenever one comes in."""

from __future__ import annotations

import re
import secrets

from backend.errors import NotFound

RANDOM_BYTES = 18  # 144 bits: an id is enough to open an analysis, so nobody may guess one
LENGTH = 24  # characters that these make
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def new_id() -> str:
    """A random id of 24 letters, digits, '-' and '_' that starts with a letter or digit."""
    while True:
        candidate = secrets.token_urlsafe(RANDOM_BYTES)
        if candidate[0].isalnum():
            return candidate


def is_id(text: object) -> bool:
    """Whether the text can be an id at all. Nothing else may become part of a path."""
    return isinstance(text, str) and ID.fullmatch(text) is not None


def checked(text: object) -> str:
    """The id itself; NotFound where it cannot be one."""
    if not is_id(text):
        raise NotFound(
            f"There is no analysis {str(text)[:64]!r}: an id has 1 to 64 letters, digits, '-' and '_'. Check the link."
        )
    return text


def missing(id: object) -> NotFound:
    """There is nothing under that id, in the one wording."""
    return NotFound(
        f"There is no analysis {str(id)[:64]!r} here. It may have been deleted; check the link or choose another."
    )

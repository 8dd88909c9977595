"""Scripts that pages publish, so that a browser fetches each once instead of with every run of a page."""

from __future__ import annotations

import hashlib

_published: dict[str, bytes] = {}


def publish(name: str, text: str) -> str:
    """Keeps a script under a name that changes with its text: "name-hash"."""
    body = text.encode()
    full = f"{name}-{hashlib.sha256(body).hexdigest()[:16]}"
    _published[full] = body
    return full


def published(full: str) -> bytes | None:
    """The script of that name, None where this process has none."""
    return _published.get(full)

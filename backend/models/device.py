"""The device that models are loaded to where none is named; the queue of their runs has its name."""

from __future__ import annotations

from backend.models.loading import choose_device


def usual_device() -> str:
    """Such as "cpu" or "cuda"."""
    return str(choose_device("auto"))

"""Words that plans share."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds for a person."""
    return f"about {seconds:.0f} s" if seconds < 120 else f"about {seconds / 60:.0f} min"

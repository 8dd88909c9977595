"""How long a run takes, in words that are as exact as an estimate is."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Such as "0.3 s", "12 s", "3 min", "2.1 h"; never less than a tenth of a second."""
    if seconds < 10:
        return f"{max(seconds, 0.1):.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

"""Term: the definition of a number that is not one value per head, with everything a person needs to read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """What a number, a curve or a label says. All of it is shown as plain text."""

    caption: str  # one sentence
    formula: str
    unit: str
    range: tuple[float, float]
    baseline: str = ""  # what uniform attention over the visible keys would give, in words or as a formula
    source: str = ""  # who defined it; "" = defined by Headwater

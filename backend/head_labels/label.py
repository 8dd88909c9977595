"""HeadLabel: a rule that names a kind of head, with the numbers it looks at and where it draws its lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Condition:
    """One number on one side of one limit."""

    score: str  # a statistic (backend/statistics) or a score (backend/head_scores)
    limit: float
    above: bool = True
    relative: bool = False  # the value is divided by that of uniform attention first
    source: str = ""  # where the limit comes from; "" = chosen by Headwater

    @property
    def name(self) -> str:
        """The name of the limit in an address and of the number in a table."""
        return f"{self.score}_ratio" if self.relative else self.score

    def holds(self, value: float, limit: float) -> bool:
        """Whether a value is on the right side; an undefined one never is."""
        return value > limit if self.above else value < limit


@dataclass(frozen=True)
class HeadLabel:
    """A label is given where all conditions hold. It is always shown with the value of the first one."""

    words: str
    says: str  # what a head with this label does, one sentence
    conditions: tuple[Condition, ...]

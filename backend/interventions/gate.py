"""Gate: what a head adds to the residual stream, times a factor (methods.md I-05)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from backend.interventions.intervention import HeadEdit


@dataclass(frozen=True, kw_only=True)
class Gate(HeadEdit):
    """The head's output times `factor`, 0 (off) to 2. Its map stays what it is."""

    NAME: ClassVar[str] = "gate"

    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect_number("factor", 0, 2, "a number from 0 (the head is off) to 2")

    def sentence(self) -> str:
        if self.factor == 0:
            return f"The output of {self.where()} is switched off."
        return f"The output of {self.where()} is multiplied by {self.factor:g}."


INTERVENTION = Gate

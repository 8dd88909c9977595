"""Temperature: the scores of a head divided by a number (methods.md I-06)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from backend.interventions.intervention import HeadEdit

LOWEST, HIGHEST = 0.01, 100.0


@dataclass(frozen=True, kw_only=True)
class Temperature(HeadEdit):
    """The model's scores divided by `temperature`: below 1 the map is sharper, above 1 flatter."""

    NAME: ClassVar[str] = "temperature"

    temperature: float

    def __post_init__(self) -> None:
        super().__post_init__()
        words = f"a number from {LOWEST:g} to {HIGHEST:g}; for a uniform map take the intervention uniform"
        self.expect_number("temperature", LOWEST, HIGHEST, words)

    def sentence(self) -> str:
        return f"The scores of {self.where()} are divided by {self.temperature:g}."


INTERVENTION = Temperature

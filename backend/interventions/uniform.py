"""Uniform: a head's map replaced by equal weights on the keys each row may see (methods.md I-05)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from backend.interventions.intervention import HeadEdit


@dataclass(frozen=True, kw_only=True)
class Uniform(HeadEdit):
    """Every visible key gets the same weight. A learned sink keeps its logit beside scores of 0."""

    NAME: ClassVar[str] = "uniform"

    def sentence(self) -> str:
        return f"The map of {self.where()} is replaced by equal weights on all visible tokens."


INTERVENTION = Uniform

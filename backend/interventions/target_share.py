"""TargetShare: a segment gets a given share of every row (methods.md I-02, the exact form)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from backend.interventions.intervention import KeyEdit, where_both


@dataclass(frozen=True, kw_only=True)
class TargetShare(KeyEdit):
    """Rows that give the keys less than `share` give them exactly that; with `lower` also rows that give more.

    Weights inside and outside keep their proportions. Rows that see no other key, or none of these, stay as they are.
    A learned sink counts as outside.
    """

    NAME: ClassVar[str] = "target_share"
    WEIGHS: ClassVar[bool] = True

    share: float
    lower: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect_number("share", 1e-6, 1 - 1e-6, "a share between 0 and 1, both excluded")

    def shifts(self, inside: Sequence[Tensor], outside: Tensor) -> list[Tensor]:
        shift = math.log(self.share) - math.log1p(-self.share) - (inside[0] - outside)
        return [where_both(inside[0], outside, shift if self.lower else shift.clamp(min=0))]

    def sentence(self) -> str:
        get = "gets" if self.keys is None or len(set(self.keys)) == 1 else "get"
        least = "exactly" if self.lower else "at least"
        return f"In {self.where()}{self.which_rows()}, {self.what()} {get} {least} {self.share:.4g} of every row."


INTERVENTION = TargetShare

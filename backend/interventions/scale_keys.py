"""ScaleKeys: the weights of chosen keys times a factor, what is freed goes to the others (methods.md I-03)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from backend.interventions.intervention import KeyEdit, where_both


@dataclass(frozen=True, kw_only=True)
class ScaleKeys(KeyEdit):
    """Weights of the keys times `factor`, 0 to 1; what is freed in a row goes to its other keys in proportion.

    A row that sees nothing else stays as it is. A learned sink is one of the others.
    """

    NAME: ClassVar[str] = "scale_keys"
    WEIGHS: ClassVar[bool] = True

    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expect_number("factor", 0, 1, "a number from 0 to 1; to raise a share take the intervention target_share")

    def shifts(self, inside: Sequence[Tensor], outside: Tensor) -> list[Tensor]:
        # With mass m and factor f the odds m / (1 - m) become f m / (1 - f m) = f m / (outside + (1 - f) m).
        factor = torch.tensor(self.factor, dtype=outside.dtype)
        kept = torch.logaddexp(outside, inside[0] + torch.log1p(-factor))
        return [where_both(inside[0], outside, factor.log() + outside - kept)]

    def sentence(self) -> str:
        return (
            f"In {self.where()}{self.which_rows()}, the weights of {self.what()} are multiplied by {self.factor:g}; "
            "what is freed goes to the other tokens in proportion."
        )


INTERVENTION = ScaleKeys

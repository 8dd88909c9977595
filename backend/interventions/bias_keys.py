"""BiasKeys: a number added to the scores of chosen keys (methods.md I-01: ln(alpha) on the keys left out)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from backend.interventions.intervention import KeyEdit

LARGEST = 100.0


@dataclass(frozen=True, kw_only=True)
class BiasKeys(KeyEdit):
    """`bias` is added to the scores: weights are multiplied by exp(bias), then every row is brought back to its sum."""

    NAME: ClassVar[str] = "bias_keys"

    bias: float

    def __post_init__(self) -> None:
        super().__post_init__()
        words = f"a number from -{LARGEST:g} to {LARGEST:g}; to hide keys take the intervention hide_keys"
        self.expect_number("bias", -LARGEST, LARGEST, words)

    def shifts(self, inside: Sequence[Tensor], outside: Tensor) -> list[Tensor]:
        return [torch.full_like(outside, self.bias)]

    def sentence(self) -> str:
        return (
            f"In {self.where()}{self.which_rows()}, {self.bias:+g} is added to the scores of {self.what()}: their "
            f"weights count {math.exp(self.bias):.3g} times as much."
        )


INTERVENTION = BiasKeys

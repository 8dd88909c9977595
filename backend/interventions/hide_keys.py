"""HideKeys: chosen keys made invisible (attention knock-out, methods.md I-05)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from backend.interventions.intervention import KeyEdit


@dataclass(frozen=True, kw_only=True)
class HideKeys(KeyEdit):
    """The keys are not visible: their weight goes to the others in proportion. No row may lose its only key."""

    NAME: ClassVar[str] = "hide_keys"

    def shifts(self, inside: Sequence[Tensor], outside: Tensor) -> list[Tensor]:
        return [torch.full_like(outside, -torch.inf)]

    def sentence(self) -> str:
        return f"In {self.where()}{self.which_rows()}, {self.what()} cannot be seen."


INTERVENTION = HideKeys

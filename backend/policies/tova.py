"""TOVA: the keys that the last row looks at, one ranking for all heads of a layer."""

from __future__ import annotations

import torch
from torch import Tensor

from backend.policies.layer import Layer
from backend.policies.policy import FORCED, Policy


class TOVA(Policy):
    title = "TOVA"
    caption = "Keeps the last key and those that the last row looks at, the same ones in all heads of a layer."
    formula = "score_j = A_(n-1),j, mean over all query heads of the layer; inf for the last key"
    source = "TOVA (Oren et al.)"

    def scores(self, layer: Layer) -> Tensor:
        last = layer.weights(layer.n - 1, layer.n)[:, 0].mean(0)  # [n]
        last = torch.where(torch.arange(layer.n, device=last.device) == layer.n - 1, FORCED, last)
        return last.expand(layer.key_heads, -1)

    def forced(self, layer: Layer) -> int:
        return 1


POLICY = TOVA()

"""Window: the last keys and nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from backend.policies.layer import Layer
from backend.policies.policy import Policy


class Window(Policy):
    title = "Window"
    caption = "Keeps the last keys."
    formula = "score_j = j"
    source = ""

    def scores(self, layer: Layer) -> Tensor:
        return torch.arange(layer.n, dtype=torch.float64).expand(layer.key_heads, -1)


POLICY = Window()

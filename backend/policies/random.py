"""Random: keys drawn by lot, what every policy must be better than."""

from __future__ import annotations

import torch
from torch import Tensor

from backend.policies.layer import Layer
from backend.policies.policy import Policy

SEED = 0


class Random(Policy):
    title = "Random"
    caption = "Keeps keys drawn by lot."
    formula = "score_j uniform on 0 to 1, drawn with seed 0 and the number of the layer"
    source = ""

    def scores(self, layer: Layer) -> Tensor:
        draw = torch.Generator().manual_seed(SEED + 1000 * layer.number)
        return torch.rand(layer.key_heads, layer.n, generator=draw)


POLICY = Random()

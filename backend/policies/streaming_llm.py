"""StreamingLLM: the first keys, which are sinks in most models, and the last ones."""

from __future__ import annotations

import torch
from torch import Tensor

from backend.policies.layer import Layer
from backend.policies.policy import FORCED, Policy

SINKS = 4


class StreamingLLM(Policy):
    title = "StreamingLLM"
    caption = "Keeps the first 4 keys and the last ones."
    formula = "score_j = inf for j < 4, else j"
    source = "StreamingLLM (Xiao et al.)"

    def scores(self, layer: Layer) -> Tensor:
        place = torch.arange(layer.n, dtype=torch.float64)
        return torch.where(place < SINKS, FORCED, place).expand(layer.key_heads, -1)

    def forced(self, layer: Layer) -> int:
        return min(SINKS, layer.n)


POLICY = StreamingLLM()

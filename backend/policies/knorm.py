"""Knorm: the keys with the smallest norm."""

from __future__ import annotations

import torch
from torch import Tensor

from backend.policies.layer import Layer
from backend.policies.policy import Policy


class Knorm(Policy):
    title = "Knorm"
    caption = "Keeps the keys with the smallest norm."
    formula = "score_j = -||k_j||"
    source = "Devoto et al., a simple and effective L2 norm based strategy"

    def scores(self, layer: Layer) -> Tensor:
        return -torch.linalg.vector_norm(layer.key[:, : layer.n].float(), dim=-1)


POLICY = Knorm()

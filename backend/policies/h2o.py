"""H2O: the keys that got most attention so far."""

from __future__ import annotations

from torch import Tensor

from backend.policies.layer import Layer
from backend.policies.policy import Policy


class H2O(Policy):
    title = "H2O"
    caption = "Keeps the keys that received most attention so far, per row that sees them."
    formula = "score_j = sum_i A_ij / number of rows that see j, mean over the query heads of the key head"
    source = "H2O (Zhang et al.), in kvpress' form ObservedAttention: the sum is divided by the number of rows"

    def scores(self, layer: Layer) -> Tensor:
        return layer.per_key_head(layer.received)


POLICY = H2O()

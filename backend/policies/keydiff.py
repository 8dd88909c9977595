"""KeyDiff: the keys that are least like the average key."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from backend.policies.layer import Layer
from backend.policies.policy import Policy


class KeyDiff(Policy):
    title = "KeyDiff"
    caption = "Keeps the keys that differ most in direction from the average key."
    formula = "score_j = -cos(k_j, mean of k / ||k||)"
    source = "KeyDiff (Park et al.), in one step"

    def scores(self, layer: Layer) -> Tensor:
        key = layer.key[:, : layer.n].float()
        anchor = functional.normalize(key, dim=-1).mean(1, keepdim=True)
        return -functional.cosine_similarity(key, anchor, dim=-1)


POLICY = KeyDiff()

"""Oracle: the keys that the rows behind the context will really look at."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.policies.layer import Layer
from backend.policies.policy import Policy, Scored, order


class Oracle(Policy):
    title = "Oracle"
    caption = "Keeps the keys that later rows will give most attention to, wherever they are: nobody can know them."
    formula = "the largest sums over later rows and query heads of A_ij, over all layers, heads and keys together"
    source = ""
    looks_ahead = True

    def scores(self, layer: Layer) -> Tensor:
        return layer.future_mass

    def choose(self, scored: Sequence[Scored], budget: float) -> list[Tensor]:
        """One ranking over the model: no other choice of so many keys retains more on average over heads."""
        total = sum(one.count(budget) * len(one.values) for one in scored)
        values = torch.cat([one.values.T.reshape(-1) for one in scored])
        reachable = torch.cat([one.reachable.repeat_interleave(len(one.values)) for one in scored])
        chosen = torch.zeros(len(values), dtype=torch.bool)
        chosen[order(values, reachable)[:total]] = True
        parts = chosen.split([one.values.numel() for one in scored])
        return [part.reshape(one.values.shape[1], -1).T.contiguous() for part, one in zip(parts, scored, strict=True)]


POLICY = Oracle()

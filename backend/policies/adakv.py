"""AdaKV: SnapKV's scores, the budget of a layer spent on whichever head has the better key."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.policies.policy import Scored, best, order
from backend.policies.snapkv import SnapKV

SAFEGUARD = 0.2  # of an equal share that every head keeps


class AdaKV(SnapKV):
    title = "AdaKV"
    caption = (
        "SnapKV, with the keys of a layer chosen over all its heads together; each head keeps a fifth of its share."
    )
    formula = "the best sum of shares over (head, key) of a layer, of each head at least 0.2 of its equal share"
    source = "AdaKV (Feng et al.) on SnapKV"

    def choose(self, scored: Sequence[Scored], budget: float) -> list[Tensor]:
        return [self.choose_layer(one, one.count(budget)) for one in scored]

    def choose_layer(self, one: Scored, count: int) -> Tensor:
        """Safe keys first, then the best of what is left in any head."""
        heads = len(one.values)
        safe = 0 if count == 0 else max(1, int(count * SAFEGUARD))
        kept = best(one.values, one.reachable, [safe] * heads)
        left = torch.where(kept, -torch.inf, one.values).T.reshape(-1)  # by position, so that ties go to later keys
        open_to = (one.reachable[None] & ~kept).T.reshape(-1)
        chosen = order(left, open_to)[: heads * (count - safe)]
        kept[chosen % heads, chosen // heads] = True
        return kept


POLICY = AdaKV()

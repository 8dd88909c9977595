"""DuoAttention: some heads keep everything, the others the first and the last keys."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backend.policies.layer import Layer
from backend.policies.policy import Policy, Scored
from backend.policies.snapkv import WINDOW

SINKS, RECENT = 128, 256


class DuoAttention(Policy):
    title = "DuoAttention"
    caption = "Keeps all keys of the heads that lose most without them, of the others the first 128 and the last 256."
    formula = (
        "heads by the attention of the last 64 rows outside the first 128 and the last 256 keys; as many keep "
        "everything as the budget allows; where 384 keys are over half of an equal share, streaming heads keep half of "
        "it, a third of that at the start"
    )
    source = "DuoAttention (Xiao et al.), whose heads are found by training; here by measuring"

    def scores(self, layer: Layer) -> Tensor:
        return torch.arange(layer.n, dtype=torch.float64).expand(layer.key_heads, -1)

    def head_scores(self, layer: Layer) -> Tensor:
        sinks, recent = streaming(layer.n // 2)
        rows = layer.weights(max(0, layer.n - WINDOW), layer.n)
        return layer.per_key_head(rows[..., sinks : layer.n - recent].sum(-1).mean(-1))

    def choose(self, scored: Sequence[Scored], budget: float) -> list[Tensor]:
        left = sum(one.count(budget) * len(one.values) for one in scored)
        kept, wishes = [], []
        for at, one in enumerate(scored):
            there = torch.nonzero(one.reachable)[:, 0]
            sinks, recent = streaming(one.count(budget) // 2)
            small = torch.zeros_like(one.values, dtype=torch.bool)
            small[:, torch.cat([there[:sinks], there[len(there) - recent :]])] = True
            left -= int(small.sum())
            kept.append(small)
            cost = len(there) - min(len(there), sinks + recent)
            wishes += [(float(one.heads[head]), at, head, cost) for head in range(len(one.values))]
        for _, at, head, cost in sorted(wishes, key=lambda wish: (-wish[0], wish[1], wish[2])):
            if cost <= left:
                kept[at][head] = scored[at].reachable
                left -= cost
        return kept

    def note(self, layer: Layer, budget: float) -> str | None:
        half = int(budget * int(layer.reachable.sum()) + 1e-9) // 2
        if half >= SINKS + RECENT:
            return None
        sinks, recent = streaming(half)
        return (
            f"{self.title}: streaming heads keep {SINKS} first and {RECENT} last keys, which is over half of an equal "
            f"share here; they kept {sinks:,} and {recent:,}."
        )


def streaming(most: int) -> tuple[int, int]:
    """First and last keys of a streaming head that may keep so many."""
    if most >= SINKS + RECENT:
        return SINKS, RECENT
    return most // 3, most - most // 3


POLICY = DuoAttention()

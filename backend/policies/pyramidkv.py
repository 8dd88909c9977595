"""PyramidKV: SnapKV's scores, more keys in the first layers and fewer in the last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from backend.policies.policy import Scored, best
from backend.policies.snapkv import SnapKV

BETA = 20  # the last layer keeps at least 1 / BETA of an equal share


class PyramidKV(SnapKV):
    title = "PyramidKV"
    caption = "SnapKV, with budgets that fall evenly from the first layer to the last."
    formula = (
        "keys of layer l fall linearly from 2m - m/20 to m/20, m the equal share; no layer keeps more than there are"
    )
    source = "PyramidKV (Cai et al.) on SnapKV"

    def choose(self, scored: Sequence[Scored], budget: float) -> list[Tensor]:
        there = np.array([int(one.reachable.sum()) for one in scored], np.float64)
        counts = pyramid(there, budget)
        return [
            best(one.values, one.reachable, [count] * len(one.values))
            for one, count in zip(scored, counts, strict=True)
        ]


def pyramid(there: np.ndarray, budget: float) -> list[int]:
    """Keys per head of every layer; `there` are the keys a layer has. Together no more than equal shares would be."""
    layers = len(there)
    if layers == 1:
        return [int(budget * there[0] + 1e-9)]
    least = max(budget / BETA, 2 * budget - 1)
    shares = np.linspace(2 * budget - least, least, layers)
    total = sum(int(budget * keys + 1e-9) for keys in there)
    exact = shares * there
    exact *= min(1.0, total / max(exact.sum(), 1e-9))  # layers that see less than others would tip the sum
    counts = np.floor(exact + 1e-9).astype(int)
    left = int(total - counts.sum())
    for place in np.argsort(-(exact - counts), kind="stable")[: max(0, left)]:
        if counts[place] < there[place]:
            counts[place] += 1
    return counts.tolist()


POLICY = PyramidKV()

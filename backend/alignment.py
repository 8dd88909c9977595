"""What a cross-attention says of two texts: how much each source token got, and which one each target token looks at.

Rows are the target, columns the source; there is no distance between them (methods X-01, X-02).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from backend.store import Analysis

CROSS = "cross"
LEAST_VARIED = 3  # target tokens from which a rank correlation says something


@dataclass(frozen=True, eq=False)
class Alignment:
    """One map [I targets, J sources]; rows that see no source are zero in it and left out of all means."""

    weights: np.ndarray
    visible: np.ndarray

    @cached_property
    def seeing(self) -> np.ndarray:
        """[I] which target tokens see any source token."""
        return self.visible.any(1)

    @cached_property
    def coverage(self) -> np.ndarray:
        """[J] what each source token got over the whole target, in rows' worths of attention."""
        return self.weights[self.seeing].sum(0)

    @property
    def even(self) -> float:
        """What each would get if it were spread evenly."""
        return float(self.seeing.sum()) / self.weights.shape[1]

    @cached_property
    def best(self) -> np.ndarray:
        """[I] the source token that gets most of each target token."""
        return np.where(self.visible, self.weights, -1.0).argmax(1)

    @cached_property
    def place(self) -> np.ndarray:
        """[I] the mean place in the source, sum_j j A_ij."""
        return self.weights @ np.arange(self.weights.shape[1])

    @property
    def coverage_deviation(self) -> float:
        """-(1 / J) sum_j ln(1 + (1 - coverage_j)^2): 0 where every source token got one row's worth."""
        return float(-np.log1p((1.0 - self.coverage) ** 2).mean())

    @property
    def absentmindedness(self) -> float:
        """-(1 / I) sum_i entropy of row i: 0 where every target token looks at one source token, else below."""
        rows = self.weights[self.seeing]
        logs = np.log(np.where(rows > 0, rows, 1.0))
        return float((rows * logs).sum(1).mean()) if len(rows) else float("nan")

    @property
    def monotonicity(self) -> float:
        """Spearman's correlation of the target's order and the mean places in the source; NaN where all are one."""
        if self.seeing.sum() < LEAST_VARIED:
            return float("nan")
        order, place = ranks(np.flatnonzero(self.seeing).astype(float)), ranks(self.place[self.seeing])
        order, place = order - order.mean(), place - place.mean()
        spread = np.sqrt((order**2).sum() * (place**2).sum())
        return float((order * place).sum() / spread) if spread > 0 else float("nan")


def alignment_of(analysis: Analysis, layer: int, heads: list[int]) -> Alignment:
    """The map of one head, or the mean over several. NoExactMap where queries and keys were not kept."""
    total = sum(np.asarray(analysis.map(layer, head, kind=CROSS), float) for head in heads)
    return Alignment(total / len(heads), np.asarray(analysis.visible(layer, heads[0], kind=CROSS)))


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    first = np.cumsum(counts) - counts
    return (first + (counts - 1) / 2)[inverse]

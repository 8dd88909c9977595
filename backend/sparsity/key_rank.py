"""How many dimensions keys take, and how well few of them find the strongest keys (methods P-14, W-05).

The matrices are small and many. torch decomposes a whole stack of them, on as many threads as its caller allows; numpy
would start threads of its own for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from backend.sparsity.rows import Rows

SHARES = (0.9, 0.95, 0.99)  # of the variance
STRONGEST = 0.1  # of the visible keys are looked for


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of keys, largest variance first. Of several heads the leading axis is the head."""

    axes: np.ndarray  # [..., D, D], one axis a column
    variance: np.ndarray  # [..., D]

    def __getitem__(self, head: int) -> Components:
        """Those of one head."""
        return Components(self.axes[head], self.variance[head])

    @property
    def explained(self) -> np.ndarray:
        """Cumulative share of one head's variance by the first r axes, [D]; NaN where all keys are the same."""
        total = self.variance.sum()
        return np.cumsum(self.variance) / total if total > 0 else np.full(len(self.variance), np.nan)

    def rank(self, share: float) -> int | None:
        """rank@v of one head: the fewest axes that hold the share of the variance."""
        explained = self.explained
        return None if np.isnan(explained).any() else int(np.argmax(explained >= share - 1e-9)) + 1


def components(keys: np.ndarray) -> Components:
    """Of keys [..., n, D], float64."""
    apart = torch.from_numpy(keys - keys.mean(-2, keepdims=True))
    variance, axes = torch.linalg.eigh(apart.mT @ apart / keys.shape[-2])
    return Components(axes.flip(-1).numpy(), variance.flip(-1).clamp(min=0).numpy())


def score_recall(
    rows: Rows, query: np.ndarray, key: np.ndarray, found: Components, sizes: list[int], strongest: float = STRONGEST
) -> list[float]:
    """For each number r of axes: the share of a row's strongest keys that q . P_r P_r^T k puts among its strongest.

    Rows with fewer than 1 / strongest keys are left out; NaN where there is none. query [R, D] are the
    rows' own, key [Nk, D].
    """
    count = np.floor(strongest * rows.counts + 1e-9).astype(int)
    chosen = count >= 1
    if not chosen.any():
        return [float("nan")] * len(sizes)
    seen, count = rows.visible[chosen], count[chosen]
    true = strongest_of(rows.weights[chosen], seen, count)
    axes, recalls = torch.from_numpy(found.axes), []
    turned_query, turned_key = torch.from_numpy(query[chosen]) @ axes, torch.from_numpy(key) @ axes
    for size in sizes:
        guess = strongest_of((turned_query[:, :size] @ turned_key[:, :size].mT).numpy(), seen, count)
        recalls.append(float(((guess & true).sum(-1) / count).mean()))
    return recalls


def strongest_of(values: np.ndarray, seen: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The `count` largest visible cells of every row, one or more of them, the earlier of equals: bool."""
    shown = np.where(seen, values, -np.inf)
    least = np.take_along_axis(np.sort(shown, axis=1), shown.shape[1] - count[:, None], 1)
    chosen, equal = (shown > least) & seen, (shown == least) & seen
    left = count - chosen.sum(-1)
    tied = equal.sum(-1) > left
    if tied.any():
        equal[tied] &= np.cumsum(equal[tied], 1) <= left[tied, None]
    return chosen | equal


def numerical_rank(singular: np.ndarray, rows: int, columns: int) -> int:
    """Singular values above max(shape) eps s_1 (float32: what the weights are kept in)."""
    if not len(singular) or singular[0] == 0:
        return 0
    return int((singular > max(rows, columns) * np.finfo(np.float32).eps * singular[0]).sum())


def effective_rank(singular: np.ndarray) -> float:
    """exp of the entropy of the singular values over their sum: 1 for one direction, r for r equal ones."""
    total = singular.sum()
    if total == 0:
        return 0.0
    share = singular[singular > 0] / total
    return float(np.exp(-(share * np.log(share)).sum()))


def product_singular(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Singular values of left right^T without building it: left [..., D, d], right [..., D', d]."""
    first, second = (torch.linalg.qr(torch.from_numpy(side), mode="r").R for side in (left, right))
    return torch.linalg.svdvals(first @ second.mT).numpy()

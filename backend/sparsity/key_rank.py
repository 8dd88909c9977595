"""How many dimensions keys take, and how well few of them find the strongest keys (methods P-14, W-05)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.sparsity.rows import Rows

SHARES = (0.9, 0.95, 0.99)  # of the variance
STRONGEST = 0.1  # of the visible keys are looked for


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of keys, largest variance first."""

    mean: np.ndarray  # [D]
    axes: np.ndarray  # [D, D], one axis a column
    variance: np.ndarray  # [D]

    @property
    def explained(self) -> np.ndarray:
        """Cumulative share of the variance by the first r axes, [D]; NaN where all keys are the same."""
        total = self.variance.sum()
        return np.cumsum(self.variance) / total if total > 0 else np.full(len(self.variance), np.nan)

    def rank(self, share: float) -> int | None:
        """rank@v: the fewest axes that hold the share of the variance."""
        explained = self.explained
        return None if np.isnan(explained).any() else int(np.argmax(explained >= share - 1e-9)) + 1


def components(keys: np.ndarray) -> Components:
    """Of keys [n, D], float64."""
    mean = keys.mean(0)
    apart = keys - mean
    variance, axes = np.linalg.eigh(apart.T @ apart / len(keys))
    return Components(mean, axes[:, ::-1], np.clip(variance[::-1], 0, None))


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
    turned_query, turned_key = query[chosen] @ found.axes, key @ found.axes
    recalls = []
    for size in sizes:
        guess = strongest_of(turned_query[:, :size] @ turned_key[:, :size].T, seen, count)
        recalls.append(float(((guess & true).sum(-1) / count).mean()))
    return recalls


def strongest_of(values: np.ndarray, seen: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The `count` largest visible cells of every row: bool."""
    order = np.argsort(-np.where(seen, values, -np.inf), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None].repeat(len(order), 0), 1)
    return (rank < count[:, None]) & seen


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
    """Singular values of left right^T without building it: left [D, d], right [D', d]."""
    return np.linalg.svd(np.linalg.qr(left)[1] @ np.linalg.qr(right)[1].T, compute_uv=False)

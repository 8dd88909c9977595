"""How concentrated rows are (methods P-01, P-02, H-01, H-02): sorted weights, shares, inequality."""

from __future__ import annotations

import numpy as np

from backend.sparsity.rows import Rows
from kernels.measures import COVERAGE_SLACK, SHARES

THRESHOLDS = (1.0, 0.1, 0.01)  # of uniform weight 1 / n_i
ABSOLUTE = (1e-3, 1e-4)


def keys_for(rows: Rows, share: float) -> np.ndarray:
    """k@c: fewest keys that hold `share` of each row, int64 [R]."""
    return np.argmax(rows.held >= share - COVERAGE_SLACK, -1) + 1


def coverage_curve(rows: Rows, kept_shares: np.ndarray) -> np.ndarray:
    """c(k) at k = the given shares of each row's visible keys (rounded up), mean over rows that see two keys or more.

    NaN everywhere where there is no such row.
    """
    chosen = rows.counts >= 2
    if not chosen.any():
        return np.full(len(kept_shares), np.nan)
    held = rows.held[chosen]
    held = np.concatenate([np.zeros((len(held), 1)), held], -1)
    counts = rows.counts[chosen, None]
    keys = np.ceil(kept_shares[None] * counts - 1e-9).astype(np.int64)
    return np.clip(np.take_along_axis(held, keys, -1).mean(0), 0.0, 1.0)


def gini(rows: Rows) -> np.ndarray:
    """0 for uniform weights to (n - 1) / n for one key that has all; NaN for rows that see one key. [R]"""
    n = rows.counts
    place = np.arange(1, rows.weights.shape[1] + 1)  # k of the ascending order; what is invisible comes first
    shifted = place - (rows.weights.shape[1] - n[:, None])  # ranks 1 .. n of the visible ones
    total = ((2 * shifted - n[:, None] - 1) * rows.ascending).sum(-1)
    return np.where(n >= 2, total / n, np.nan)


def hoyer(sum_square: np.ndarray, n: np.ndarray) -> np.ndarray:
    """0 for uniform weights to 1 for one key that has all; NaN where a row sees one key."""
    n, sum_square = np.asarray(n, np.float64), np.asarray(sum_square, np.float64)
    root = np.sqrt(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(n >= 2, (root - 1 / np.sqrt(sum_square)) / (root - 1), np.nan)


def entropy(rows: Rows) -> np.ndarray:
    """-sum p ln p in nats, [R]."""
    logs = np.log(rows.weights, out=np.zeros_like(rows.weights), where=rows.weights > 0)
    return -(rows.weights * logs).sum(-1)


def below_thresholds(rows: Rows) -> dict[str, float]:
    """Share of the visible cells with a weight under eps / n_i, and under fixed weights. Strictly under."""
    cells = rows.visible.sum()
    limit = {f"under_{eps:g}_uniform": eps / rows.counts[:, None] for eps in THRESHOLDS}
    limit |= {f"under_{fixed:g}": fixed for fixed in ABSOLUTE}
    return {name: float((rows.visible & (rows.weights < edge - 1e-15)).sum() / cells) for name, edge in limit.items()}


def concentration(rows: Rows) -> dict[str, float]:
    """The numbers of one head: means over the rows that see two keys or more, None where there is none."""
    chosen = rows.counts >= 2
    if not chosen.any():
        return {}
    several = Rows(rows.weights[chosen], rows.visible[chosen], rows.position[chosen])
    square, n = (several.weights**2).sum(-1), several.counts
    found = {
        "normalised_entropy": entropy(several) / np.log(n),
        "participation": 1 / square,
        "gini": gini(several),
        "hoyer": hoyer(square, n),
    }
    for share in SHARES:
        found[f"keys_{round(100 * share)}"] = keys = keys_for(several, share)
        found[f"share_{round(100 * share)}"] = keys / n
    return {name: float(np.mean(values)) for name, values in found.items()} | below_thresholds(several)

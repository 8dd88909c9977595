"""Does a row need more than its neighbourhood? By its own weights (P-12), and predicted without them (L-02).

The local set is the first keys and a window. QAdA predicts its share of a row from the local scores and a Gaussian
picture of the other keys: lse_bulk = ln N_b + s q.mu + s^2 q' Sigma q / 2. What it is held against is the true share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.sparsity.rows import Rows
from kernels.threads import numba_is_here

WINDOW, FIRST, ENOUGH = 256, 4, 0.99  # All-or-Here's window; the share that must lie inside
TAU = 0.6  # QAdA's threshold as remembered, not verified against its code


def local_mask(rows: Rows, window: int, first: int) -> np.ndarray:
    """bool [R, Nk]"""
    key = np.arange(rows.weights.shape[1])
    return ((np.abs(rows.position[:, None] - key[None]) < window) | (key < first)[None]) & rows.visible


def local_mass(rows: Rows, window: int = WINDOW, first: int = FIRST) -> np.ndarray:
    """m_loc of every row, [R]."""
    if not numba_is_here():
        return (rows.weights * local_mask(rows, window, first)).sum(-1)
    from kernels.loops_patterns import near_mass

    held = np.empty(len(rows.position))
    near_mass(np.ascontiguousarray(rows.weights), np.ascontiguousarray(rows.position), window, first, held)
    return held


def local_suffices(rows: Rows, window: int = WINDOW, first: int = FIRST, enough: float = ENOUGH) -> float:
    """Share of the rows whose local mass is enough; rows that see nothing outside are among them."""
    return float((local_mass(rows, window, first) >= enough - 1e-9).mean())


@dataclass(frozen=True, eq=False)
class Predicted:
    """QAdA on the rows that see keys outside the local set. [T]"""

    position: np.ndarray
    true: np.ndarray  # m_loc, of the real weights
    predicted: np.ndarray
    residual: np.ndarray  # predicted - summed lse of scale q.k over the other keys, nats
    tau: float

    @property
    def agreement(self) -> float:
        """Share of the rows on the same side of tau."""
        return float(((self.true >= self.tau) == (self.predicted >= self.tau)).mean())

    @property
    def auroc(self) -> float | None:
        """Chance that a local row is predicted above one that is not; None where all rows are of one kind."""
        local = self.true >= self.tau
        if local.all() or not local.any():
            return None
        pairs = self.predicted[local][:, None] - self.predicted[~local][None]
        return float(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def predict(
    rows: Rows, query: np.ndarray, key: np.ndarray, scale: float, *, window: int, first: int = FIRST, tau: float = TAU
) -> Predicted | None:
    """query [R, D] of the rows, key [Nk, D]. None where no row sees two keys outside.

    The prediction takes scale q.k for the score, nothing else; `true` is the real share, whatever made the weights.
    """
    inside = local_mask(rows, window, first)
    outside = rows.visible & ~inside
    chosen = np.flatnonzero(outside.sum(-1) >= 2)
    if not len(chosen):
        return None
    found = [one_row(query[row], key, scale, inside[row], outside[row]) for row in chosen]
    predicted, residual = (np.array(values) for values in zip(*found, strict=True))
    true = (rows.weights * inside).sum(-1)[chosen]
    return Predicted(rows.position[chosen], true, predicted, residual, tau)


def one_row(query: np.ndarray, key: np.ndarray, scale: float, inside: np.ndarray, outside: np.ndarray):
    """The prediction of m_loc, and by how much ln of the outside sum was missed."""
    score = scale * (key @ query)
    local, bulk = log_sum(score[inside]), log_sum(score[outside])
    rest = key[outside]
    mean = rest.mean(0)
    spread = ((rest - mean) @ query).var() if len(rest) else 0.0
    guess = np.log(len(rest)) + scale * (mean @ query) + scale**2 * spread / 2
    return sigmoid(local - guess), guess - bulk


def log_sum(values: np.ndarray) -> float:
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))


def sigmoid(value: float) -> float:
    return float(1 / (1 + np.exp(-np.clip(value, -700, 700))))

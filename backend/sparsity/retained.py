"""What the retained mass of a row tells (methods T-03): divergence, distance, and how far the output can move.

With m = exp(lse_kept - lse), the share of a row's mass on the kept keys, and the kept weights divided by m:
KL(kept || full) = -ln m, total variation = 1 - m, and the output moves by at most (1 - m) times the diameter of the
values.
"""

from __future__ import annotations

import numpy as np

FLOOR = 1e-12  # a row that keeps nothing has no finite divergence; it is counted with this mass


def kept_row(weights: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Renormalised rows [..., Nk] and m [...]; NaN rows where nothing is kept."""
    mass = (weights * kept).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(mass[..., None] > 0, weights * kept / mass[..., None], np.nan), mass


def divergence(mass: np.ndarray) -> np.ndarray:
    """KL(kept || full) = -ln m in nats, elementwise."""
    return -np.log(np.clip(mass, FLOOR, 1.0))


def total_variation(mass: np.ndarray) -> np.ndarray:
    """Half the sum of |kept - full| = 1 - m."""
    return 1 - np.asarray(mass)


def eviction_error(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """||o - o~|| after dropping one key alone, for every key: p_j / (1 - p_j) ||o - v_j||. [Nk]

    weights [Nk] of one row that sum to 1, values [Nk, Dv]. inf for a key that has everything.
    """
    output = weights @ values
    with np.errstate(divide="ignore"):
        return weights / (1 - weights) * np.linalg.norm(output - values, axis=-1)


def output_bound(mass: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(1 - m) diam(V): no output moves by more. values [Nk, Dv] of the visible keys."""
    apart = np.linalg.norm(values[:, None] - values[None], axis=-1)
    return (1 - np.asarray(mass)) * apart.max()

"""What each token gets from chosen rows, with or without the sinks (methods.md R-04, K-05)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST_REST = 1e-6  # a row with less than this outside the sinks says nothing about the rest
SINK_IMPORTANCE = 0.1  # K-02: a key is a sink of a head when its importance exceeds this ...
SINK_ROWS = 16  # ... and at least so many rows see it


def sinks_of(received_mean: np.ndarray, visible_rows: np.ndarray) -> np.ndarray:
    """Which keys are detected as sinks (K-02): bool, shaped as the arguments."""
    return (received_mean > SINK_IMPORTANCE) & (visible_rows >= SINK_ROWS)


def without_sinks(weights: np.ndarray, seen: np.ndarray, sinks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights and visibility [..., rows, N] with the sinks [..., N] gone and every row brought back to a sum of 1.

    Rows with less than LEAST_REST outside the sinks are NaN.
    """
    seen = seen & ~sinks[..., None, :]
    kept = np.where(seen, weights, 0.0)
    rest = kept.sum(-1, keepdims=True)
    return np.where(rest < LEAST_REST, np.nan, kept / np.where(rest < LEAST_REST, 1.0, rest)), seen


@dataclass(frozen=True, eq=False)
class Received:
    """Mean over the rows that see the token: weight and what uniform attention would give. NaN: no row sees it."""

    weight: np.ndarray  # [..., N]
    uniform: np.ndarray  # [..., N]


def received(weights: np.ndarray, seen: np.ndarray, sinks: np.ndarray | None = None) -> Received:
    """weights, seen [..., rows, N]; sinks [..., N] where the view is sink-free (sinks come out as NaN)."""
    weights = np.asarray(weights, np.float64)
    if sinks is not None:
        weights, seen = without_sinks(weights, seen, sinks)
    counts = seen.sum(-1, keepdims=True)
    uniform = np.where(seen, 1.0 / np.maximum(counts, 1), 0.0)
    says = np.isfinite(weights).all(-1, keepdims=True)
    rows = (seen & says).sum(-2)
    with np.errstate(invalid="ignore"):
        mean = [np.where(seen & says, part, 0.0).sum(-2) / np.where(rows > 0, rows, 1) for part in (weights, uniform)]
    return Received(*(np.where(rows > 0, part, np.nan) for part in mean))

"""What each token gets from chosen rows, with or without the sinks (methods.md R-04, K-05)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.sink_free import without_sinks


@dataclass(frozen=True, eq=False)
class Received:
    """Mean over the rows that see the token: weight and what uniform attention would give. NaN: no row sees it."""

    weight: np.ndarray  # [N]
    uniform: np.ndarray  # [N]


def received(weights: np.ndarray, seen: np.ndarray, sinks: tuple[int, ...] | None = None) -> Received:
    """weights, seen [rows, N] of one head; `sinks` where the view is sink-free (they come out as NaN)."""
    weights = np.asarray(weights, np.float64)
    if sinks is not None:
        weights, seen = without_sinks(weights, seen, sinks)
    counts = seen.sum(-1, keepdims=True)
    uniform = np.where(seen, 1.0 / np.maximum(counts, 1), 0.0)
    rows = seen.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = [np.where(seen, part, 0.0).sum(0) / rows for part in (weights, uniform)]
    return Received(*mean)

"""Sink percentage (K-01): in how many of a model's heads the first token gets more than epsilon.

    Sink% = 100 * mean over samples, layers and heads of 1[alpha_0 > epsilon]

Each sample gives one percentage; the interval is a bootstrap over samples: 95 % of the means of as many samples drawn
anew, with replacement and a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DRAWS = 2000


@dataclass(frozen=True)
class Percentage:
    """A sink percentage with its 95 % interval; the interval is None for one sample."""

    percent: float
    low: float | None
    high: float | None
    samples: int


def sink_percentage(first: np.ndarray, epsilon: float) -> Percentage:
    """first: importance of key 0, [samples, heads of all layers]; NaN heads (no row sees the key) do not count."""
    per_sample = per_sample_percent(first, epsilon)
    low, high = interval(per_sample) if len(per_sample) > 1 else (None, None)
    return Percentage(float(per_sample.mean()), low, high, len(per_sample))


def per_sample_percent(first: np.ndarray, epsilon: float) -> np.ndarray:
    """Percentage of each sample, [samples]."""
    known = np.isfinite(first)
    above = (np.where(known, first, 0.0) > epsilon) & known
    return 100.0 * above.sum(-1) / np.maximum(known.sum(-1), 1)


def interval(values: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """The middle 95 % of bootstrap means."""
    drawn = np.random.default_rng(seed).integers(0, len(values), (DRAWS, len(values)))
    low, high = np.quantile(values[drawn].mean(-1), (0.025, 0.975))
    return float(low), float(high)

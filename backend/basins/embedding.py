"""Encoders and embedding models: where pooling looks, and whether place decides what an embedding keeps (B-08)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from backend.basins.distance import Fit, line

BINS = 10
FRONT = 2  # bins that count as the front


def position_bins(weights: np.ndarray, start: int, stop: int, bins: int = BINS) -> np.ndarray:
    """Mass per equal bin of the tokens start .. stop - 1: [..., bins] of weights [..., N]. Edges floor(b n / bins)."""
    edges = start + np.arange(bins + 1) * (stop - start) // bins
    return np.stack([weights[..., a:b].sum(-1) for a, b in pairwise(edges)], -1)


def front_loading(bins: np.ndarray) -> np.ndarray:
    """Share of the mass in the first FRONT bins: [...]; NaN where there is no mass."""
    total = bins.sum(-1)
    return np.where(total > 0, bins[..., :FRONT].sum(-1) / np.where(total > 0, total, 1), np.nan)


def position_sensitivity(scores: Sequence[float]) -> float:
    """PSI = 1 - smallest / largest score over places; NaN where the largest is 0."""
    values = np.asarray(scores, np.float64)
    return float(1 - values.min() / values.max()) if values.max() != 0 else float("nan")


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))


@dataclass(frozen=True)
class PlaceEffect:
    """How the likeness of a segment to the whole changes with its place, from the first (0) to the last (1)."""

    fit: Fit | None
    psi: float
    by_place: tuple[float, ...]  # mean cosine per place


def place_effect(cosines: np.ndarray) -> PlaceEffect:
    """cosines [orders, places]."""
    count = cosines.shape[1]
    x = np.broadcast_to(np.linspace(0, 1, count), cosines.shape)
    means = cosines.mean(0)
    fit = line(x.ravel(), cosines.ravel(), np.ones(cosines.size))
    return PlaceEffect(fit, position_sensitivity(means), tuple(means.tolist()))

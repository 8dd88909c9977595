"""Weight, score and entropy by distance, in logarithmic bins, with fits (B-02, B-07)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from backend.baselines import uniform_measures
from backend.basins.stored import stored_sinks
from backend.errors import NoExactMap
from backend.sink_free import kept_score
from backend.sinks.kept import kept_layer
from backend.store import Analysis
from kernels.api import attend
from kernels.measures import MeasureRequest

LEAST_ROWS = 16  # a distance that fewer rows reach says little; it is drawn, but in no fit
BETAS = np.arange(0.1, 3.01, 0.05)
REQUEST = MeasureRequest(rows=False, keys=False, distances=True, pooled=None, sampled=0, scores=True)


@dataclass(frozen=True, eq=False)
class ByDistance:
    """Of every kept head of one layer, at query - key = 0 .. N - 1 (what lies ahead of a query is left out)."""

    heads: tuple[int, ...]
    weight: np.ndarray  # [h, N] mean weight over the rows that have a key there; NaN where none has
    score: np.ndarray  # [h, N] mean score (before the softmax, biases included)
    rows: np.ndarray  # int64 [h, N]
    uniform: np.ndarray  # [N] of uniform attention over the visible keys


def by_distance(analysis: Analysis, layer: int, kind: str = "self", *, sinkfree: bool = True) -> ByDistance:
    """From the stored queries and keys. NoExactMap where none were kept."""
    kept = kept_layer(analysis, layer, kind)
    if kept is None:
        raise NoExactMap(
            f"Queries and keys of layer {layer} were not kept, so weight and score by distance cannot be computed."
        )
    n = kept.query.shape[2]
    score = kept.score
    if sinkfree:
        sinks = stored_sinks(analysis, kind)
        score = kept_score(kept, [sinks[layer, head] for head in kept.heads])
    nothing = torch.zeros(*kept.key.shape[:3], 1)
    measures = attend(kept.query, kept.key, nothing, score, REQUEST).measures
    even = uniform_measures(score, n, n, heads=len(kept.heads))
    first = 0 if kept.score.causal else n - 1  # index of distance 0
    total, rows, scores, even_total, even_rows = (
        values.double().numpy()[..., first:]
        for values in (
            *(measures[name][0] for name in ("distance_sum", "distance_rows", "distance_score")),
            *(even[name] for name in ("distance_sum", "distance_rows")),
        )
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return ByDistance(kept.heads, total / rows, scores, rows.astype(np.int64), even_total.sum(0) / even_rows.sum(0))


def log_bins(n: int) -> list[tuple[int, int]]:
    """Distances 0, 1, 2, 3, 4-5, 6-7, 8-11, 12-15, 16-23 ... as (first, last + 1) up to n."""
    edges, step = [0, 1, 2, 3], 4
    while edges[-1] < n:
        edges += [step, step + step // 2]
        step *= 2
    edges = [edge for edge in edges if edge < n] + [n]
    return list(pairwise(edges))


def binned(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Mean per log bin over the cells in it: [..., bins] of [..., N]; NaN where no cell is."""
    known = np.where(np.isfinite(values), values, 0.0) * rows
    parts = [
        (known[..., a:b].sum(-1), (rows * np.isfinite(values))[..., a:b].sum(-1)) for a, b in log_bins(values.shape[-1])
    ]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.stack([total / count for total, count in parts], -1)


@dataclass(frozen=True)
class Fit:
    """A straight line in the coordinates named by its use; r2 None where nothing varies."""

    slope: float
    level: float
    r2: float | None


def line(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Fit | None:
    """Weighted least squares over what is finite; None for fewer than three points."""
    there = np.isfinite(x) & np.isfinite(y) & (weight > 0)
    if there.sum() < 3:
        return None
    x, y, weight = x[there], y[there], weight[there] / weight[there].sum()
    x_mean, y_mean = (weight * x).sum(), (weight * y).sum()
    spread, total = (weight * (x - x_mean) ** 2).sum(), (weight * (y - y_mean) ** 2).sum()
    if spread <= 0:
        return None
    slope = float((weight * (x - x_mean) * (y - y_mean)).sum() / spread)
    left = float((weight * (y - y_mean - slope * (x - x_mean)) ** 2).sum())
    r2 = None if total <= 1e-20 * max(1.0, y_mean**2) else 1 - left / total
    return Fit(slope, float(y_mean - slope * x_mean), r2)


def decay_fits(weight: np.ndarray, rows: np.ndarray) -> dict[str, Fit | None]:
    """power: ln f against ln D; exponential: ln f against D; over distances from 1 on, each octave counting alike."""
    distance = np.arange(1, len(weight), dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        log = np.log(weight[1:])
    counts = np.where(rows[1:] >= min(LEAST_ROWS, rows.max()), 1 / distance, 0.0)
    return {"power": line(np.log(distance), log, counts), "exponential": line(distance, log, counts)}


@dataclass(frozen=True)
class Prior:
    """ln prior = -(D / alpha)^beta: beta 1 = Laplace (ALiBi, slope 1 / alpha), 2 = Gaussian. r2 near 0: no prior."""

    alpha: float | None  # tokens; None where no falling prior fits
    beta: float | None
    r2: float | None


def prior_fit(score: np.ndarray, rows: np.ndarray) -> Prior:
    """The generalised Gaussian that fits mean scores by distance best (B-07)."""
    distance = np.arange(len(score), dtype=float)
    counts = np.where(rows >= min(LEAST_ROWS, rows.max()), 1 / np.maximum(distance, 1.0), 0.0)
    best = Prior(None, None, 0.0)
    for beta in BETAS:
        found = line(-(distance**beta), score, counts)
        if found is None or found.r2 is None:
            return Prior(None, None, None)
        if found.slope > 0 and found.r2 > best.r2:
            best = Prior(float(found.slope ** (-1 / beta)), float(beta), found.r2)
    return best


def entropy_slope(entropy: np.ndarray, visible: np.ndarray) -> Fit | None:
    """Entropy of rows against ln of the keys they see: slope 1 = spreads over all, 0 = as sharp at any length."""
    many = visible >= 2
    return line(np.log(np.maximum(visible, 1.0)), entropy, many.astype(float))

"""The shape of a slot profile, its uncertainty over permutations, and position apart from content (B-01)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

RESAMPLES = 1000
BAND = (2.5, 97.5)  # percentiles


@dataclass(frozen=True)
class Shape:
    """Descriptors of a profile over slots; None where it is undefined."""

    primacy: float | None  # first slot / mean
    recency: float | None  # last slot / mean
    depth: float | None  # 1 - smallest interior slot / mean of the two ends; 0 = flat
    trough: float | None  # where the smallest interior slot lies, 0 = first slot, 1 = last
    curvature: float | None  # of a parabola over slots from -1 to 1, in units of the mean; above 0 = ends higher


def shape(profile: np.ndarray) -> Shape:
    """Of [K] values per slot. Where a slot is out of reach (NaN), every descriptor is undefined."""
    values = np.asarray(profile, np.float64)
    count, mean = len(values), values.mean() if len(values) else math.nan
    if count < 2 or not mean > 0:
        return Shape(None, None, None, None, None)
    ends = (values[0] + values[-1]) / 2
    depth = trough = curvature = None
    if count >= 3:
        lowest = 1 + int(values[1:-1].argmin())
        depth = 1 - values[lowest] / ends if ends > 0 else None
        trough = lowest / (count - 1)
        curvature = float(np.polyfit(np.linspace(-1, 1, count), values / mean, 2)[0])
    return Shape(float(values[0] / mean), float(values[-1] / mean), _number(depth), _number(trough), curvature)


def band(samples: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval of the mean over permutations [C, ...] by resampling them; NaN for a single one."""
    count = len(samples)
    if count < 2:
        nothing = np.full(samples.shape[1:], np.nan)
        return nothing, nothing
    draws = np.random.default_rng(seed).integers(0, count, (RESAMPLES, count))
    shares = np.stack([(draws == one).mean(1) for one in range(count)], 1)  # [RESAMPLES, C]
    means = np.tensordot(shares, samples, 1)
    low, high = np.percentile(means, BAND, axis=0)
    return low, high


@dataclass(frozen=True, eq=False)
class Additive:
    """value = mean + content[document] + position[slot], fitted by least squares; the effects of each sum to 0."""

    mean: float
    content: np.ndarray  # [documents]
    position: np.ndarray  # [slots]
    r2: float | None  # share of the variance that the sum explains; None where nothing varies
    r2_content: float | None  # of the effect of the document alone
    r2_position: float | None


def additive(values: np.ndarray, documents: np.ndarray) -> Additive:
    """values, documents [C, K]: what slot s got in permutation c, and which document stood there. NaN is left out."""
    count = values.shape[1]
    slots = np.broadcast_to(np.arange(count), values.shape)
    there = np.isfinite(values)
    y, d, s = values[there], documents[there], slots[there]
    total = float(((y - y.mean()) ** 2).sum()) if len(y) else 0.0
    content, position = sum_to_zero(d, count), sum_to_zero(s, count)
    both = np.concatenate([np.ones((len(y), 1)), content, position], 1)
    found, *_ = np.linalg.lstsq(both, y, rcond=None)
    effects = [np.append(part, -part.sum()) for part in (found[1:count], found[count:])]

    def explained(design: np.ndarray) -> float | None:
        if total <= 1e-30 * max(1.0, float((y**2).sum())):
            return None
        best, *_ = np.linalg.lstsq(design, y, rcond=None)
        return 1 - float(((y - design @ best) ** 2).sum()) / total

    ones = both[:, :1]
    alone = [explained(np.concatenate([ones, part], 1)) for part in (content, position)]
    return Additive(float(found[0]), effects[0], effects[1], explained(both), *alone)


def sum_to_zero(levels: np.ndarray, count: int) -> np.ndarray:
    """Design [n, count - 1] of a factor whose effects sum to 0: the last level is minus the others."""
    design = np.zeros((len(levels), count - 1))
    for column in range(count - 1):
        design[:, column] = (levels == column).astype(float) - (levels == count - 1)
    return design


def _number(value) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)

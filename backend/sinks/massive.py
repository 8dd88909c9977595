"""Massive activations and massive dimensions of queries and keys (B-09).

A dimension c of a head is massive where its norm over the sequence is more than `factor` times the mean over the
dimensions of the head. Rotary embeddings turn pairs of dimensions; a pair's norm stays what it was before the turn, so
that the pair, its frequency band, is known although the stored vectors are the turned ones. Values are not stored.

An activation is massive where it is above 100 and above 1,000 times the median magnitude of its layer (K-04). A file
holds the norm and the largest magnitude of every token and not the median; that is estimated from what the norms leave
without the largest number, as of normal values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.sinks.importance import Importance
from backend.sinks.kept import kept_layer
from backend.sinks.mechanics import hidden_norms
from backend.store import Analysis

FACTOR = 5.0  # unverified default
LARGE, TIMES = 100.0, 1000.0  # of an activation; unverified defaults
MEDIAN_OF_NORMAL = 0.6745  # median magnitude of normal values, divided by their root mean square


@dataclass(frozen=True)
class MassiveDimension:
    """One dimension of the queries of a head or the keys of a key head."""

    part: str  # "query" or "key"
    layer: int
    head: int  # query head; key head for "key"
    dimension: int
    times_mean: float
    band: int | None  # pair of the rotary embedding, 0 = fastest; None where none is known
    bands: int  # pairs of the rotary embedding; 0 where none are known
    width: int  # dimensions of the head


@dataclass(frozen=True)
class MassiveActivation:
    """The largest magnitude of the residual stream of one token before one layer."""

    layer: int
    position: int
    magnitude: float
    times_median: float  # times the estimated median magnitude of the layer


def massive_dimensions(analysis: Analysis, found: Importance, kind: str = "self", factor: float = FACTOR):
    """All that are massive, the largest first. Heads without exact maps are left out."""
    bands = 0 if kind == "cross" else known_bands(analysis)
    dimensions: list[MassiveDimension] = []
    for layer in found.layers:
        kept = kept_layer(analysis, layer, kind)
        if kept is None:
            continue
        whole = kept.key.shape[1] < len(kept.heads) or kept.info.heads == kept.info.key_heads
        shared = kept.info.heads // kept.info.key_heads
        key_heads = range(kept.key.shape[1]) if whole else [head // shared for head in kept.heads]
        for part, vectors, heads in (("query", kept.query, kept.heads), ("key", kept.key, key_heads)):
            ratios = times_mean(vectors[0].double().numpy())
            for place, dimension in np.argwhere(ratios > factor).tolist():
                band, value = band_of(dimension, bands), float(ratios[place, dimension])
                dimensions.append(
                    MassiveDimension(part, layer, int(heads[place]), dimension, value, band, bands, ratios.shape[1])
                )
    unique = {(one.part, one.layer, one.head, one.dimension): one for one in dimensions}
    return sorted(unique.values(), key=lambda one: -one.times_mean)


def times_mean(vectors: np.ndarray) -> np.ndarray:
    """Norm of every dimension over the sequence, divided by the mean over the dimensions: [h, N, D] -> [h, D]."""
    norms = np.linalg.norm(vectors, axis=1)
    middle = norms.mean(-1, keepdims=True)
    return np.divide(norms, middle, out=np.zeros_like(norms), where=middle > 0)


def known_bands(analysis: Analysis) -> int:
    """Rotary pairs of a head, where the model was seen to turn its keys in halves; else 0."""
    facts = analysis.info.get("rotary") or {}
    return len(facts["frequencies"]) if facts.get("halves") else 0


def band_of(dimension: int, bands: int) -> int | None:
    """The rotary pair of a dimension, 0 = the fastest; None for one that is not turned, or not known to be."""
    return dimension % bands if dimension < 2 * bands else None


def massive_activations(
    analysis: Analysis, found: Importance, large: float = LARGE, times: float = TIMES
) -> list[MassiveActivation]:
    """Tokens whose largest magnitude is above `large` and above `times` the layer's median, by layer and position."""
    largest, norms = (hidden_norms(analysis, found, column) for column in ("max_abs", "norm"))
    widths = {info.layer: info.heads * info.head_dim for info in analysis.layers("self")}
    activations = []
    for place, layer in enumerate(found.layers):
        row, middle = largest[place], median_magnitude(norms[place], largest[place], widths.get(layer, 0))
        if middle is None:
            continue
        for position in np.flatnonzero(np.nan_to_num(row) > max(large, times * middle)):
            magnitude = float(row[position])
            activations.append(MassiveActivation(layer, int(position), magnitude, magnitude / middle))
    return activations


def median_magnitude(norms: np.ndarray, largest: np.ndarray, width: int) -> float | None:
    """Median magnitude of the numbers of a layer, estimated: the median over tokens of the root mean square of a token
    without its largest number, times 0.6745. None where the file holds no norms, or nothing is left of them.

    width: numbers of a token, that is heads times head size in nearly all models."""
    known = np.isfinite(norms) & np.isfinite(largest)
    if width < 2 or not known.any():
        return None
    rest = np.maximum(norms[known] ** 2 - largest[known] ** 2, 0.0) / (width - 1)
    return MEDIAN_OF_NORMAL * float(np.median(np.sqrt(rest))) or None

"""Massive activations and massive dimensions of queries and keys (B-09).

A dimension c of a head is massive where its norm over the sequence is more than `factor` times the mean over the
dimensions of the head. Rotary embeddings turn pairs of dimensions; a pair's norm stays what it was before the turn, so
that the pair, its frequency band, is known although the stored vectors are the turned ones. Values are not stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.sinks.importance import Importance
from backend.sinks.kept import kept_layer
from backend.sinks.mechanics import hidden_norms
from backend.store import Analysis

FACTOR = 5.0  # unverified default
LARGE, TIMES = 100.0, 10.0  # of an activation


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
    times_others: float  # times the median over the other tokens of their largest magnitude


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
    """Tokens whose largest magnitude is above `large` and above `times` the others', by layer and position."""
    largest = hidden_norms(analysis, found, "max_abs")
    activations = []
    for place, layer in enumerate(found.layers):
        row = largest[place]
        for position in np.flatnonzero(np.nan_to_num(row) > large):
            others = np.delete(row, position)
            middle = float(np.nanmedian(others)) if np.isfinite(others).any() else np.nan
            if middle > 0 and row[position] > times * middle:
                activations.append(
                    MassiveActivation(layer, int(position), float(row[position]), float(row[position] / middle))
                )
    return activations

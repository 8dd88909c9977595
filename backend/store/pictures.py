"""Pooled pictures of maps: from weights, and a coarser one from a finer one."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from torch import Tensor

from backend.store.rule import HEAD_AXIS
from kernels.counts import count_blocks
from kernels.measures import pool_edges
from kernels.score import ScoreSpec
from kernels.tiles import spans_of
from kernels.window import visible

ROWS_AT_ONCE = 256


def pool(values: np.ndarray, seen: np.ndarray, size: int, how: str) -> np.ndarray:
    """Mean or maximum over the visible cells of each block: float32 [P, P'], NaN where nothing is visible."""
    edges = [pool_edges(length, size).numpy()[:-1] for length in values.shape]
    counts = _blocks(np.add, seen.astype(np.int64), edges)
    hidden = 0.0 if how == "mean" else -np.inf
    masked = np.where(seen, values, hidden)
    blocks = _blocks(np.add if how == "mean" else np.maximum, masked.astype(np.float64), edges)
    return _divided(blocks, counts, how)


def coarser(picture: np.ndarray, counts: np.ndarray | None, size: int) -> np.ndarray:
    """A stored picture with at most `size` values per axis; its blocks are unions of the stored ones.

    counts: visible cells of each stored block, for means.
    """
    sides = [_divisor(length, size) for length in picture.shape]
    if tuple(sides) == picture.shape:
        return picture.copy()
    edges = [np.arange(side) * (length // side) for side, length in zip(sides, picture.shape, strict=True)]
    seen = ~np.isnan(picture)
    if counts is None:
        blocks = _blocks(np.maximum, np.where(seen, picture, -np.inf), edges)
        return np.where(np.isinf(blocks), np.nan, blocks).astype(np.float32)
    sums = _blocks(np.add, np.where(seen, picture, 0.0).astype(np.float64) * counts, edges)
    return _divided(sums, _blocks(np.add, counts, edges), "mean")


def nests(stored: tuple[int, int], size: int, n_query: int, n_key: int) -> bool:
    """Whether a picture of exactly min(size, n) values per axis is a union of stored blocks."""
    return all(_divisor(side, size) == min(size, n) for side, n in zip(stored, (n_query, n_key), strict=True))


def visible_counts(score: ScoreSpec, n_query: int, n_key: int, shape: tuple[int, int]) -> np.ndarray:
    """Visible cells of every block: int64 of that shape. The rule is that of one head."""
    spans = spans_of(score, 1, n_query, n_key)
    if not spans.masked:  # every row sees one run of keys: counted without looking at the cells
        return count_blocks(spans.low, spans.high, n_key, *shape)[0].numpy()
    edges = [pool_edges(n, side).numpy() for n, side in zip((n_query, n_key), shape, strict=True)]
    per_row = np.zeros((n_query, shape[1]), np.int64)
    for start in range(0, n_query, ROWS_AT_ONCE):
        rows = slice(start, min(n_query, start + ROWS_AT_ONCE))
        seen = visible(score, n_query, n_key, rows, slice(0, n_key))[0, 0].numpy()
        per_row[rows] = np.add.reduceat(seen, edges[1][:-1], axis=1, dtype=np.int64)
    return np.add.reduceat(per_row, edges[0][:-1], axis=0)


def differs_by_head(score: ScoreSpec) -> bool:
    """Whether heads of the layer may see different cells."""
    tensors = {f.name: t for f in fields(score) if isinstance(t := getattr(score, f.name), Tensor)}
    return any((axis := HEAD_AXIS[name]) is not None and tensor.shape[axis] > 1 for name, tensor in tensors.items())


def _divisor(length: int, size: int) -> int:
    """The largest divisor of length up to size."""
    return next(side for side in range(min(size, length), 0, -1) if length % side == 0)


def _blocks(function: np.ufunc, values: np.ndarray, edges: list[np.ndarray]) -> np.ndarray:
    return function.reduceat(function.reduceat(values, edges[0], axis=0), edges[1], axis=1)


def _divided(blocks: np.ndarray, counts: np.ndarray, how: str) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        values = blocks / counts if how == "mean" else blocks
    return np.where(counts > 0, values, np.nan).astype(np.float32)

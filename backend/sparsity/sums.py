"""A map added up once by distance, by group of keys and by block: what every family of patterns is made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from backend.sparsity.rows import Rows
from kernels.threads import numba_is_here

COLUMNS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # numbers of columns that vertical-slash tries


@dataclass(frozen=True, eq=False)
class Sums:
    """Counts and weights of the visible cells. Groups: a key of group g is outside sizes[g - 1], inside sizes[g]."""

    rows: Rows
    first: int  # keys at the start that an A-shape keeps
    zero: int  # index of distance 0
    rank: np.ndarray  # int64 [Nk], place of a key by received mass, from 0
    sizes: list[int]  # numbers of columns that are tried
    count: np.ndarray  # [Dist, groups, 2] visible cells; the last axis: among the first keys or not
    mass: np.ndarray
    side: int  # tokens of a block
    row_block: np.ndarray  # int64 [R], counted from the first block that has rows
    block_count: np.ndarray  # [row blocks, key blocks]
    block_mass: np.ndarray

    @classmethod
    def of(cls, rows: Rows, first: int) -> Sums:
        n_key = rows.weights.shape[1]
        zero = int(max(0, n_key - 1 - rows.position.min()))
        rank = np.empty(n_key, np.int64)
        rank[np.argsort(-rows.weights.sum(0), kind="stable")] = np.arange(n_key)
        sizes = sorted({min(size, n_key) for size in COLUMNS})
        group = 2 * np.searchsorted(sizes, rank, side="right") + (np.arange(n_key) < first)
        side = block_side(n_key)
        row_block = np.unique(rows.position // side, return_inverse=True)[1]
        by_distance = (int(rows.position.max()) + zero + 1, 2 * (len(sizes) + 1))
        by_block = (int(row_block[-1]) + 1, -(-n_key // side))
        added = add_up(rows, rows.position + zero, row_block, group, side, by_distance, by_block)
        count, mass = (values.reshape(len(values), -1, 2) for values in added[:2])
        return cls(rows, first, zero, rank, sizes, count, mass, side, row_block, *added[2:])

    @property
    def total(self) -> float:
        return float(len(self.rows.position))  # every row sums to 1

    @cached_property
    def distance(self) -> np.ndarray:
        """Index of the distance of every cell: int64 [R, Nk]."""
        return self.rows.position[:, None] - np.arange(self.rows.weights.shape[1])[None] + self.zero


def block_side(n_key: int) -> int:
    """64 from 1,024 keys on, as in the kernels; for shorter texts a sixteenth of the keys, a power of two."""
    return 64 if n_key >= 1024 else max(1, 2 ** int(np.log2(max(1, n_key // 16))))


def add_up(
    rows: Rows,
    start: np.ndarray,
    row_block: np.ndarray,
    group: np.ndarray,
    side: int,
    by_distance: tuple[int, int],
    by_block: tuple[int, int],
) -> tuple[np.ndarray, ...]:
    """Visible cells and their weights, by distance (from `start`, that to key 0) and group, then by block."""
    if not numba_is_here():
        return add_up_plainly(rows, start, row_block, group, side, by_distance, by_block)
    from kernels.loops_patterns import add_up as loop

    found = [np.zeros(shape, kind) for shape in (by_distance, by_block) for kind in (np.int64, np.float64)]
    cells = (np.ascontiguousarray(values) for values in (rows.weights, rows.visible, start, row_block, group))
    loop(*cells, side, *found)
    return tuple(found)


def add_up_plainly(
    rows: Rows,
    start: np.ndarray,
    row_block: np.ndarray,
    group: np.ndarray,
    side: int,
    by_distance: tuple[int, int],
    by_block: tuple[int, int],
) -> tuple[np.ndarray, ...]:
    """The same without compiled loops."""
    row, key = np.nonzero(rows.visible)
    weight, found = rows.weights[row, key], []
    for place, shape in (
        ((start[row] - key) * by_distance[1] + group[key], by_distance),
        (row_block[row] * by_block[1] + key // side, by_block),
    ):
        size = shape[0] * shape[1]
        found += [np.bincount(place, minlength=size).reshape(shape), np.bincount(place, weight, size).reshape(shape)]
    return tuple(found)

"""Compiled loops of the CPU path over rows of weights that are already there: sums by distance and group of keys."""

from __future__ import annotations

from numba import types

from kernels.jit import EXACT, jit

CELLS, SEEN = (types.Array(kind, 2, "C", readonly=True) for kind in (types.float64, types.boolean))  # [R, Nk]
PLACES = types.Array(types.int64, 1, "C", readonly=True)
COUNTS, MASSES = types.Array(types.int64, 2, "C"), types.Array(types.float64, 2, "C")
TOTALS = types.Array(types.float64, 1, "C")


@jit(
    types.void(*(CELLS, SEEN, PLACES, PLACES, PLACES, types.int64), *(COUNTS, MASSES, COUNTS, MASSES)),
    EXACT,
)
def add_up(
    weights,
    visible,
    start,  # [R] index of the distance from each row to key 0
    row_block,  # [R]
    group,  # [Nk]
    side,  # keys of a block
    count,  # [distances, groups], added to: visible cells
    mass,  # weights of visible cells
    block_count,  # [row blocks, key blocks], added to
    block_mass,
):
    """Visible cells and their weights by distance and group of keys, and by block."""
    n_key = weights.shape[1]
    for r in range(weights.shape[0]):
        line, seen, first, block = weights[r], visible[r], start[r], row_block[r]
        for b in range(block_count.shape[1]):
            pairs, held = 0, 0.0
            for j in range(b * side, min(n_key, (b + 1) * side)):
                if seen[j]:
                    pairs += 1
                    held += line[j]
                    count[first - j, group[j]] += 1
                    mass[first - j, group[j]] += line[j]
            block_count[block, b] += pairs
            block_mass[block, b] += held


@jit(types.void(*(CELLS, PLACES, types.int64, types.int64), TOTALS), EXACT)
def near_mass(weights, position, window, first, held):
    """Written to held [R]: the mass of each row on the first keys and on those fewer than `window` away."""
    n_key = weights.shape[1]
    for r in range(weights.shape[0]):
        low = max(first, position[r] - window + 1)
        total = 0.0
        for j in range(min(first, n_key)):
            total += weights[r, j]
        for j in range(low, min(n_key, position[r] + window)):
            total += weights[r, j]
        held[r] = total

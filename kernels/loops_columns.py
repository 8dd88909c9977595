"""The compiled column pass of the CPU path: sums per key, per distance and per block of the pooled map.

Four rows at a time, so that each sum is loaded and stored once for four cells.
"""

from __future__ import annotations

import numpy as np
from numba import types

from kernels.jit import EDGES, LARGEST, LINE, LOWEST, PER_ROW, SCORES, SUMS, WHERE, f32, jit, larger

FOUR = types.UniTuple(types.float32, 4)


@jit(types.void(LINE, LINE, LINE, LINE, FOUR, LINE, LINE, LINE), SUMS)
def add_keys(row_0, row_1, row_2, row_3, inverse, total, largest, square):
    """Add four rows to the sums per key."""
    i_0, i_1, i_2, i_3 = inverse
    for c in range(total.shape[0]):
        a, b, d, e = row_0[c] * i_0, row_1[c] * i_1, row_2[c] * i_2, row_3[c] * i_3
        total[c] += (a + b) + (d + e)
        square[c] += (a * a + b * b) + (d * d + e * e)
        x, y = a if a > b else b, d if d > e else e
        x = x if x > y else y
        largest[c] = x if x > largest[c] else largest[c]


@jit(types.void(LINE, LINE, LINE, LINE, FOUR, LINE), SUMS)
def add_shifted(row_0, row_1, row_2, row_3, inverse, sums):
    """Add four rows, each already shifted to its own distances."""
    i_0, i_1, i_2, i_3 = inverse
    for c in range(sums.shape[0]):
        sums[c] += (row_0[c] * i_0 + row_1[c] * i_1) + (row_2[c] * i_2 + row_3[c] * i_3)


@jit(types.void(LINE, types.float32, LINE), SUMS)
def add_line(row, inverse, sums):
    for c in range(sums.shape[0]):
        sums[c] += row[c] * inverse


@jit(types.void(SCORES, PER_ROW, EDGES, EDGES, types.int64, PER_ROW), SUMS)
def distances(scores, inverse, low, high, start, sums):
    """Add the weights of a strip to the sums by distance.

    sums [g, Dist + padding] run from the farthest key to the nearest, so that both rise together; `start` is the place
    of row 0, column 0, and each row lies one place before the row above it.
    """
    n_rows = scores.shape[1]
    for h in range(scores.shape[0]):
        for r in range(0, n_rows, 4):
            left, right = low[r], high[r]
            for k in range(r + 1, min(r + 4, n_rows)):
                left, right = min(left, low[k]), max(right, high[k])
            if r + 4 <= n_rows and right - left > 8:
                n, to = right - left - 3, start + left - r
                four = (inverse[h, r], inverse[h, r + 1], inverse[h, r + 2], inverse[h, r + 3])
                add_shifted(
                    scores[h, r, left : left + n],
                    scores[h, r + 1, left + 1 : left + 1 + n],
                    scores[h, r + 2, left + 2 : left + 2 + n],
                    scores[h, r + 3, left + 3 : left + 3 + n],
                    four,
                    sums[h, to : to + n],
                )
                for k in range(4):  # the corners that the common run leaves out
                    to = start - r - k
                    for c in range(left, left + k):
                        sums[h, to + c] += scores[h, r + k, c] * four[k]
                    for c in range(left + n + k, right):
                        sums[h, to + c] += scores[h, r + k, c] * four[k]
            else:
                for k in range(r, min(r + 4, n_rows)):
                    to = start + left - k
                    add_line(scores[h, k, left:right], inverse[h, k], sums[h, to : to + right - left])


@jit(types.void(LINE, LINE), SUMS)
def add(line, sums):
    for c in range(sums.shape[0]):
        sums[c] += line[c]


@jit(types.void(LINE, LINE), SUMS)
def keep_larger(line, largest):
    for c in range(largest.shape[0]):
        largest[c] = line[c] if line[c] > largest[c] else largest[c]


@jit(types.float32(LINE), SUMS)
def sum_of(line):
    total = f32(0)
    for c in range(line.shape[0]):
        total += line[c]
    return total


@jit(types.float32(LINE), LARGEST)
def top_of(line):
    largest = LOWEST
    for c in range(line.shape[0]):
        largest = larger(largest, line[c])
    return largest


@jit(types.void(LINE, LINE, types.int64, EDGES, LINE, LINE), SUMS)
def flush_block(total, largest, first_column, key_edges, pooled_total, pooled_largest):
    """Add the sums per key of one row of blocks to its blocks."""
    stop = first_column + total.shape[0]
    block = np.searchsorted(key_edges, first_column, side="right") - 1
    while block < pooled_total.shape[0] and key_edges[block] < stop:
        left, right = max(key_edges[block], first_column) - first_column, min(key_edges[block + 1], stop) - first_column
        pooled_total[block] += sum_of(total[left:right])
        pooled_largest[block] = max(pooled_largest[block], top_of(largest[left:right]))
        block += 1


@jit(types.void(PER_ROW, LINE, types.int64, types.int64, types.int64, types.int64, PER_ROW), SUMS)
def add_rows(scores, inverse, top, bottom, left, right, scratch):
    """Sum, largest and square per key of rows top to bottom, columns left to right, into the start of scratch."""
    n = right - left
    scratch[:, :n] = f32(0)
    for r in range(top, bottom, 4):
        r_1, r_2, r_3 = min(r + 1, bottom - 1), min(r + 2, bottom - 1), min(r + 3, bottom - 1)
        four = (
            inverse[r],
            inverse[r_1] if r + 1 < bottom else f32(0),
            inverse[r_2] if r + 2 < bottom else f32(0),
            inverse[r_3] if r + 3 < bottom else f32(0),
        )
        add_keys(
            scores[r, left:right],
            scores[r_1, left:right],
            scores[r_2, left:right],
            scores[r_3, left:right],
            four,
            scratch[0, :n],
            scratch[1, :n],
            scratch[2, :n],
        )


@jit(
    types.void(
        *(SCORES, PER_ROW, EDGES, EDGES, types.int64, types.int64),
        *(EDGES, EDGES, types.Array(types.float32, 3, "C"), types.Array(types.float32, 4, "C"), PER_ROW),
    ),
    SUMS,
)
def columns(
    scores,  # [g, R, C] exponentials
    inverse,  # [g, R]
    low,
    high,  # [R]
    first_row,
    first_column,
    row_edges,
    key_edges,  # of the pooled map
    keys,  # [g, 3 or 0, Nk] sum, largest, square, added to
    pooled,  # [g, 2 or 0, Pq, Pk] sum, largest, added to
    scratch,  # [3, C or more]
):
    """The column pass: the rows of one block of the pooled map together."""
    n_rows = scores.shape[1]
    for h in range(scores.shape[0]):
        block = np.searchsorted(row_edges, first_row, side="right") - 1
        top = 0
        while top < n_rows:
            bottom = min(row_edges[block + 1] - first_row, n_rows)
            left, right = scores.shape[2], 0
            for r in range(top, bottom):
                if high[r] > low[r]:
                    left, right = min(left, low[r]), max(right, high[r])
            n = right - left
            if n > 0:
                add_rows(scores[h], inverse[h], top, bottom, left, right, scratch)
                if keys.shape[1] > 0:
                    start, stop = first_column + left, first_column + right
                    add(scratch[0, :n], keys[h, 0, start:stop])
                    keep_larger(scratch[1, :n], keys[h, 1, start:stop])
                    add(scratch[2, :n], keys[h, 2, start:stop])
                if pooled.shape[1] > 0:
                    flush_block(
                        scratch[0, :n],
                        scratch[1, :n],
                        first_column + left,
                        key_edges,
                        pooled[h, 0, block],
                        pooled[h, 1, block],
                    )
            top, block = bottom, block + 1


@jit(types.void(EDGES, EDGES, EDGES, EDGES, WHERE), SUMS)
def block_counts(low, high, row_edges, key_edges, counts):
    """Visible cells of each block, counts [Pq, Pk], from the run of keys low <= key < high of every row."""
    for block in range(counts.shape[0]):
        for r in range(row_edges[block], row_edges[block + 1]):
            first, last = low[r], high[r]
            for k in range(counts.shape[1]):
                overlap = min(key_edges[k + 1], last) - max(key_edges[k], first)
                counts[block, k] += overlap if overlap > 0 else 0

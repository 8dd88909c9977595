"""The compiled row pass of the CPU path: scores become exponentials, and everything per row is summed on the way.

A row is read twice while it lies in the nearest cache: for its largest score, then for the exponential and all sums.
The exponential is our own polynomial because a call into the C library is not vectorised; its error is under 2e-7 of
the value.
"""

from __future__ import annotations

import numpy as np
from numba import types

from kernels.jit import (
    BLOCKS,
    EDGES,
    EXACT,
    FLOATS,
    LARGEST,
    LINE,
    LOWEST,
    PER_ROW,
    SCORES,
    SUMS,
    WHERE,
    WHOLES,
    f32,
    jit,
    larger,
    nearest,
    power_of_two,
)
from kernels.measures import NEGLIGIBLE

SMALLEST = f32(-87.0)  # exp of less is not a normal float32: 0
SINGLE = types.UniTuple(types.float32, 3)
WHOLE = types.UniTuple(types.float64, 6)  # the score taken off, then the sums of exponential_row
PIECE = 256  # columns among which the first of the largest is looked for


@jit(types.float32(types.float32), EXACT)
def exponential(x):
    """exp(x) for x <= 0; 0 below -87."""
    held = SMALLEST if x <= SMALLEST else x  # NaN stays NaN
    n = nearest(held * f32(1.4426950408889634))
    r = held - n * f32(0.693359375)  # ln 2 in two parts, the first exact in few bits
    r = r - n * f32(-2.12194440e-4)
    p = f32(1 / 720)  # the series up to r^6; |r| <= ln(2) / 2
    p = p * r + f32(1 / 120)
    p = p * r + f32(1 / 24)
    p = p * r + f32(1 / 6)
    p = p * r + f32(0.5)
    p = p * r + f32(1.0)
    p = p * r + f32(1.0)
    return f32(0.0) if x <= SMALLEST else p * power_of_two(n)


@jit(types.float32(LINE), LARGEST)
def largest_of(line):
    largest = LOWEST
    for c in range(line.shape[0]):
        largest = larger(largest, line[c])
    return largest


@jit(types.boolean(LINE), EXACT)
def has_nan(line):
    return np.isnan(line).any()


@jit(types.float32(SCORES, EDGES, EDGES, PER_ROW, WHERE), SUMS)
def row_maxima(scores, low, high, largest, where):
    """Largest score of each row's span and the first column that has it; -inf and -1 where all is hidden, NaN and -1
    where all is hidden or NaN. Returns the largest magnitude of any row's largest score."""
    furthest = f32(0)
    for h in range(scores.shape[0]):
        for r in range(scores.shape[1]):
            row = scores[h, r, low[r] : high[r]]
            best, start = LOWEST, 0
            for piece in range(0, row.shape[0], PIECE):
                candidate = largest_of(row[piece : piece + PIECE])
                if candidate > best:
                    best, start = candidate, piece
            where[h, r] = -1
            if best > LOWEST:
                while row[start] != best:
                    start += 1
                where[h, r] = low[r] + start
                furthest = max(furthest, abs(best))
            elif has_nan(row):
                best = f32(np.nan)
            largest[h, r] = best
    return furthest


@jit(types.UniTuple(types.float32, 4)(LINE, LINE, types.float32, types.float32), SUMS)
def exponentials_of(line, keys, largest, position):
    """Scores to exponentials, in place; sums of e, e * (s - largest), e^2 and e * |position - key|."""
    total, weighted, square, distance = f32(0), f32(0), f32(0), f32(0)
    for c in range(line.shape[0]):
        x = line[c] - largest
        e = exponential(x)
        line[c] = e
        total += e
        weighted += e * (f32(0) if x <= SMALLEST else x)
        square += e * e
        distance += e * abs(position - keys[c])
    return total, weighted, square, distance


@jit(types.int64(LINE, types.float64, types.int64), SUMS)
def count_negligible(line, whole, seen):
    """Visible weights under NEGLIGIBLE / seen. Hidden cells of the span are 0, and no weights."""
    threshold, count = f32(NEGLIGIBLE * whole / seen), np.int32(0)
    for c in range(line.shape[0]):
        count += np.int32(line[c] < threshold)
    return count - (line.shape[0] - seen)


@jit(types.float32(LINE, types.int64, types.int64, types.int64), SUMS)
def visible_score(row, column, low, high):
    """Score of one column, -inf where it is hidden or outside the span."""
    return row[column] if low <= column < high else LOWEST


@jit(SINGLE(LINE, types.int64, types.int64, types.int64, types.int64), SUMS)
def single_scores(row, low, high, first, own):
    """Scores of the first key, the row's own and the one before it; -inf where hidden."""
    return (
        visible_score(row, first, low, high),
        visible_score(row, own, low, high),
        visible_score(row, own - 1, low, high),
    )


@jit(types.float64(types.float32, types.float64, types.float64), SUMS)
def weight_of(score, top, whole):
    """Weight of a score, NaN where it is hidden."""
    return np.exp(score - top) / whole if score > LOWEST else np.nan


@jit(WHOLE(LINE, types.int64, types.int64, LINE, types.float32, types.float64, types.float32), SUMS)
def exponential_row(row, low, high, keys, largest, sink_score, position):
    """A row of scores to exponentials, 0 outside the span: the score taken off, the sums, and the sink's part."""
    top = f32(sink_score) if sink_score > largest else largest
    row[:low] = f32(0)
    row[high:] = f32(0)
    total, weighted, square, distance = exponentials_of(row[low:high], keys, top, position)
    sink_part = np.exp(sink_score - top)
    if sink_part > 0:
        weighted += sink_part * (sink_score - top)
    return top, np.float64(total) + sink_part, weighted, square + sink_part * sink_part, distance, sink_part


@jit(types.void(types.Array(types.float32, 1, "A"), WHOLE, types.float32, SINGLE), SUMS)
def write_sums(rows, sums, largest, single):
    """ROW_SUMS of one row."""
    top, whole, weighted, square, distance, sink_part = sums
    entropy = np.log(whole) - weighted / whole
    rows[0] = 0.0 if entropy < 0 else entropy
    rows[1] = np.exp(np.float64(largest) - top) / whole
    rows[2] = square / (whole * whole)
    rows[3] = distance / whole
    rows[4] = weight_of(single[0], top, whole)
    rows[5] = weight_of(single[1], top, whole)
    rows[6] = weight_of(single[2], top, whole)
    rows[7] = sink_part / whole


@jit(
    types.void(
        *(SCORES, EDGES, EDGES, WHOLES, types.Array(types.boolean, 1, "C")),
        *(PER_ROW, WHERE, types.Array(types.float64, 2, "C"), types.Array(types.float64, 1, "C")),
        *(LINE, types.int64, types.int64, types.int64, types.int64),
        *(FLOATS, PER_ROW, PER_ROW, BLOCKS, WHOLES, WHOLES),
    ),
    SUMS,
)
def exponentials(
    scores,  # [g, R, C], overwritten: exp(score - largest), 0 outside the spans
    low,
    high,  # [R] spans, relative to the first column
    count,  # [1 or g, Nq] visible keys
    real,  # [Nq]
    largest,
    where,  # [g, R] from row_maxima
    base,  # [g or 1, R or 1]
    sink,  # [g], -inf where the head has none
    keys,  # [Nk] 0, 1, 2 ... as floats
    first_row,
    first_column,
    position,  # of the first row
    first_key,  # the first real key
    lse,  # [g, Nq], written
    divisor,  # [g, R], written: exponential / divisor = weight
    inverse,  # [g, R], written: 1 / divisor; 0 for rows that are in no measure
    rows,  # [8 or 0, g, Nq], written: ROW_SUMS
    max_key,
    negligible,  # [g, Nq], written
):
    """The row pass. Rows that see nothing are left as Sums made them."""
    for h in range(scores.shape[0]):
        for r in range(scores.shape[1]):
            row, i, p, left, right = scores[h, r], first_row + r, position + r, low[r], high[r]
            divisor[h, r], inverse[h, r] = f32(1), f32(0)
            if largest[h, r] == LOWEST:
                row[:] = f32(0)
                continue
            single = single_scores(row, left, right, first_key - first_column, p - first_column)
            level = base[h % base.shape[0], r % base.shape[1]]
            own_keys = keys[first_column + left : first_column + right]
            sums = exponential_row(row, left, right, own_keys, largest[h, r], sink[h] - level, f32(p))
            top, whole = sums[0], sums[1]
            divisor[h, r] = whole
            lse[h, i] = level + top + np.log(whole)
            if real[i]:
                inverse[h, r] = 1 / whole
            if real[i] and rows.shape[0] > 0:
                write_sums(rows[:, h, i], sums, largest[h, r], single)
                max_key[h, i] = first_column + where[h, r] if where[h, r] >= 0 else -1
                negligible[h, i] = count_negligible(row[left:right], whole, count[h % count.shape[0], i])


@jit(types.void(LINE, types.float32, LINE), SUMS)
def add_weights(line, lse, total):
    for c in range(line.shape[0]):
        total[c] += exponential(line[c] - lse)


@jit(types.void(LINE, types.float32, LINE), SUMS)
def keep_larger_scores(line, lse, largest):
    for c in range(line.shape[0]):
        x = line[c] - lse
        largest[c] = x if x > largest[c] else largest[c]


@jit(types.float32(LINE), SUMS)
def sum_of(line):
    total = f32(0)
    for c in range(line.shape[0]):
        total += line[c]
    return total


@jit(
    types.void(
        *(SCORES, EDGES, EDGES, FLOATS, types.int64, types.int64, EDGES, EDGES, types.boolean),
        *(types.Array(types.float32, 3, "A"), LINE),
    ),
    SUMS,
)
def picture(
    scores,  # [g, R, C]
    low,
    high,  # [R] spans, relative to the first column
    lse,  # [g, R]
    first_row,
    first_column,  # where the strip lies in the window
    row_edges,
    key_edges,  # of the picture, from the window's first row and column
    mean,  # sums, or else the largest
    values,  # [g, P, P'], added to
    scratch,  # [C or more]
):
    """Sum or largest of the weights of each block that the strip touches."""
    n_rows = scores.shape[1]
    for h in range(scores.shape[0]):
        block, top = np.searchsorted(row_edges, first_row, side="right") - 1, 0
        while top < n_rows:
            bottom = min(row_edges[block + 1] - first_row, n_rows)
            scratch[:] = f32(0) if mean else LOWEST
            for r in range(top, bottom):
                if high[r] > low[r] and mean:
                    add_weights(scores[h, r, low[r] : high[r]], lse[h, r], scratch[low[r] : high[r]])
                elif high[r] > low[r]:
                    keep_larger_scores(scores[h, r, low[r] : high[r]], lse[h, r], scratch[low[r] : high[r]])
            own = np.searchsorted(key_edges, first_column, side="right") - 1
            stop = first_column + scores.shape[2]
            while own < values.shape[2] and key_edges[own] < stop:
                left = max(key_edges[own], first_column) - first_column
                part = scratch[left : min(key_edges[own + 1], stop) - first_column]
                if mean:
                    values[h, block, own] += sum_of(part)
                else:
                    values[h, block, own] = max(values[h, block, own], exponential(largest_of(part)))
                own += 1
            top, block = bottom, block + 1

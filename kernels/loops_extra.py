"""Compiled loops of the CPU path for what is measured only when asked: tokens, strongest keys, moments, coverage."""

from __future__ import annotations

import numpy as np
from numba import types

from kernels.jit import BLOCKS, EDGES, LINE, LOWEST, PER_ROW, SCORES, SUMS, WHERE, f32, jit
from kernels.measures import COVERAGE_SLACK

MASS = types.UniTuple(types.float32, 2)


@jit(MASS(LINE, EDGES, types.int64), SUMS)
def mass_of_token(line, tokens, own):
    """Sum of the weights on keys of one token, and their number."""
    mass, number = f32(0), f32(0)
    for c in range(line.shape[0]):
        hit = f32(1) if tokens[c] == own else f32(0)
        mass += line[c] * hit
        number += hit
    return mass, number


@jit(
    types.void(
        *(SCORES, PER_ROW, EDGES, EDGES, types.int64, types.int64, types.int64),
        *(EDGES, EDGES, EDGES, BLOCKS),
    ),
    SUMS,
)
def token_masses(
    scores,  # [g, R, C] exponentials
    inverse,  # [g, R], 0 for rows in no measure
    low,
    high,  # [R]
    first_row,
    first_column,
    position,  # of the first row
    row_tokens,  # [Nq]
    key_tokens,
    previous_tokens,  # [Nk]
    masses,  # [2, g, Nq], written: duplicate, induction; left as they are where there is no such key
):
    """Mass on earlier equal tokens, and on keys that follow one. Every cell of a span is visible."""
    for h in range(scores.shape[0]):
        for r in range(scores.shape[1]):
            if inverse[h, r] == 0:
                continue
            own, shift = row_tokens[first_row + r], first_column
            for kind in range(2):
                tokens = key_tokens if kind == 0 else previous_tokens
                stop = min(high[r], position + r + kind - first_column)  # duplicates lie before the row itself
                if stop > low[r]:
                    line, names = scores[h, r, low[r] : stop], tokens[low[r] + shift : stop + shift]
                    mass, number = mass_of_token(line, names, own)
                    if number > 0:
                        masses[kind, h, first_row + r] = mass * inverse[h, r]


@jit(
    types.void(
        *(SCORES, PER_ROW, EDGES, EDGES, types.int64, types.int64),
        *(types.Array(types.int64, 3, "A"), BLOCKS),
    ),
    SUMS,
)
def strongest(scores, inverse, low, high, first_row, first_column, top_keys, top_weights):
    """The strongest keys of each row, the lowest of equals first. Every cell of a span is visible.

    top_keys, top_weights [g, Nq, top], written as far as a row sees keys.
    """
    top = top_keys.shape[2]
    keys, values = np.empty(top, np.int64), np.empty(top, np.float32)
    for h in range(scores.shape[0]):
        for r in range(scores.shape[1]):
            if inverse[h, r] == 0:
                continue
            found = 0
            for c in range(low[r], high[r]):
                value = scores[h, r, c]
                if found == top and value <= values[top - 1]:
                    continue
                place = min(found, top - 1)
                while place > 0 and values[place - 1] < value:
                    values[place], keys[place] = values[place - 1], keys[place - 1]
                    place -= 1
                values[place], keys[place] = value, c
                found = min(found + 1, top)
            for place in range(found):
                top_keys[h, first_row + r, place] = first_column + keys[place]
                top_weights[h, first_row + r, place] = values[place] * inverse[h, r]


@jit(
    types.void(
        *(SCORES, EDGES, EDGES, types.Array(types.boolean, 1, "C"), types.Array(types.float64, 2, "C")),
        *(types.int64, types.int64, BLOCKS, PER_ROW),
    ),
    SUMS,
)
def moments(scores, low, high, real, base, first_row, start, rows, distances):
    """Mean and variance of the visible scores of each row, and their sums by distance, before they become weights.

    rows [2, g, Nq], written; distances [g, Dist + padding] as in loops_columns.distances, added to.
    """
    for h in range(scores.shape[0]):
        for r in range(scores.shape[1]):
            if not real[first_row + r]:
                continue
            level = base[h % base.shape[0], r % base.shape[1]]
            total, number, to = 0.0, 0, start - r
            for c in range(low[r], high[r]):
                s = scores[h, r, c]
                if s != LOWEST:
                    total += s
                    number += 1
                    distances[h, to + c] += f32(s + level)
            if number == 0:
                continue
            mean, square = total / number, 0.0
            for c in range(low[r], high[r]):
                s = scores[h, r, c]
                if s != LOWEST:
                    square += (s - mean) * (s - mean)
            rows[0, h, first_row + r], rows[1, h, first_row + r] = mean + level, square / number


@jit(types.void(SCORES, WHERE, types.Array(types.float64, 1, "C"), types.Array(types.int64, 3, "A")), SUMS)
def coverage(ordered, seen, shares, needed):
    """Keys needed for each share of the visible mass.

    ordered [g, S, C] weights of each row, ascending, in any unit; seen [g, S] 0 where the row is in no measure;
    needed [g, S, 5], written.
    """
    for h in range(ordered.shape[0]):
        for r in range(ordered.shape[1]):
            if seen[h, r] == 0:
                continue
            total = 0.0
            for c in range(ordered.shape[2]):
                total += np.float64(ordered[h, r, c])
            mass, number, c = 0.0, 0, ordered.shape[2] - 1
            for k in range(shares.shape[0]):
                while c >= 0 and (number == 0 or mass < (shares[k] - COVERAGE_SLACK) * total):
                    mass += np.float64(ordered[h, r, c])
                    number += 1
                    c -= 1
                needed[h, r, k] = number

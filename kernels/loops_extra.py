"""Compiled loops of the CPU path for what is measured only when asked: tokens, strongest keys, moments, coverage."""

from __future__ import annotations

import numpy as np
from numba import types

from kernels.jit import BLOCKS, EDGES, LARGEST, LINE, LOWEST, PER_ROW, SCORES, SUMS, f32, jit, larger
from kernels.measures import COVERAGE_SLACK

MASS = types.UniTuple(types.float32, 2)
PATTERN, MASSES = types.Array(types.int32, 1, "C"), types.Array(types.float64, 1, "C")
PIECE = 16  # keys looked at together for the strongest
CLASSES = 4096  # of 1/128 octave: 32 octaves; the last holds everything smaller


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


@jit(types.float32(LINE), LARGEST)
def top_of(line):
    largest = LOWEST
    for c in range(line.shape[0]):
        largest = larger(largest, line[c])
    return largest


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
            for piece in range(low[r], high[r], PIECE):
                stop = min(piece + PIECE, high[r])
                if found == top and top_of(scores[h, r, piece:stop]) <= values[top - 1]:
                    continue  # nothing here is stronger than what was found
                for c in range(piece, stop):
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


@jit(
    types.void(
        *(LINE, PATTERN, MASSES, MASSES, EDGES, types.Array(types.int8, 1, "C"), PER_ROW),
        types.Array(types.int64, 1, "A"),
    ),
    SUMS,
)
def cover(line, patterns, shares, masses, counts, slots, held, needed):
    """Fewest cells of one row that hold each share of its mass, without sorting the row.

    The bits of a positive float32 rise with its value, so their upper half puts the cells into classes 0.5 % wide, from
    the largest down. Whole classes are taken until one crosses the share; only its cells are sorted.
    """
    last, n_shares = masses.shape[0] - 1, shares.shape[0]
    top = np.int32(0)
    for c in range(line.shape[0]):
        top = max(top, patterns[c])
    top >>= 16
    masses[:], counts[:], slots[:] = 0.0, 0, -1
    for c in range(line.shape[0]):
        k = min(top - (patterns[c] >> 16), last)
        masses[k] += line[c]
        counts[k] += 1
    total = masses.sum()

    mass, number, k, n_slots = 0.0, 0, 0, 0
    slot, reached, taken = np.empty(n_shares, np.int64), np.empty(n_shares), np.empty(n_shares, np.int64)
    for share in range(n_shares):
        while k < last and (counts[k] == 0 or mass + masses[k] < (shares[share] - COVERAGE_SLACK) * total):
            mass += masses[k]
            number += counts[k]
            k += 1
        if slots[k] < 0:
            slots[k] = n_slots
            n_slots += 1
        slot[share], reached[share], taken[share] = slots[k], mass, number

    filled = np.zeros(n_slots, np.int64)
    for c in range(line.shape[0]):
        own = slots[min(top - (patterns[c] >> 16), last)]
        if own >= 0:
            held[own, filled[own]] = line[c]
            filled[own] += 1
    for own in range(n_slots):
        held[own, : filled[own]].sort()
    for share in range(n_shares):
        own, k = slot[share], 0
        while k < filled[own] and (k == 0 or reached[share] < (shares[share] - COVERAGE_SLACK) * total):
            k += 1
            reached[share] += held[own, filled[own] - k]
        needed[share] = taken[share] + k


@jit(
    types.void(
        *(SCORES, types.Array(types.int32, 3, "C"), EDGES, EDGES, EDGES, types.Array(types.int64, 2, "A")),
        *(MASSES, types.Array(types.int64, 3, "A")),
    ),
    SUMS,
)
def coverage(scores, patterns, low, high, sampled, seen, shares, needed):
    """Keys needed for each share of the visible mass.

    scores [g, R, C] exponentials, patterns their bits; sampled [S] rows among R; seen [1 or g, S] 0 where the row is in
    no measure; needed [g, S, 5], written.
    """
    masses, counts = np.empty(CLASSES), np.empty(CLASSES, np.int64)
    slots, held = np.empty(CLASSES, np.int8), np.empty((shares.shape[0], scores.shape[2]), np.float32)
    for h in range(scores.shape[0]):
        for s in range(sampled.shape[0]):
            r = sampled[s]
            if seen[h % seen.shape[0], s] > 0:
                cover(
                    scores[h, r, low[r] : high[r]],
                    patterns[h, r, low[r] : high[r]],
                    shares,
                    masses,
                    counts,
                    slots,
                    held,
                    needed[h, s],
                )

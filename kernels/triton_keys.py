"""Pass 2: what needs finished weights, rebuilt tile by tile from Q, K and what pass 1 kept of each row.

One program walks along a block diagonal of the map: every tile of it holds the same distances in the same cells, so
the sums by distance cost one addition per cell and are skewed only once, at the end. Tiles are [keys, rows]: the
sums per key run along a thread's own registers, and the one sum per row, the count of negligible weights, is
packed four to a number before it crosses threads.

Everything is deterministic: each program owns the partial sums it adds to, and torch adds the partial sums of the
programs in a fixed order afterwards. A launch runs `programs` diagonals of each head, the next launch adds the next
ones to the same partial sums: there are as many of them whatever the length, and memory stays O(N).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.measures import distance_index, pool_edges
from kernels.score import ScoreSpec
from kernels.triton_launch import Blocks, blocks_for, interpreted, launch, load_tile, operand, padded
from kernels.triton_score import Rule, first_key, scores, visible

PROGRAMS = 512  # on a device, over all heads: about four for each multiprocessor of a large GPU
INTERPRETED_PROGRAMS = 4
LEAST_SLOTS = 16  # blocks of the pooled map beside each other in a tile: with fewer the compiler spills registers
WORKSPACE_BYTES = 256 << 20  # partial sums held at once; more heads than fit are taken in turns


class Partials(NamedTuple):
    """Where pass 2 adds, for each head and program; None = not asked for."""

    received: Any  # float32 [heads, programs, Nk]
    largest: Any
    square: Any
    negligible: Any  # int32 [heads, programs, Nq]
    pooled_sum: Any  # float32 [heads, programs, Pq, Pk]
    pooled_max: Any
    distance: Any  # float32 [heads, diagonals, 2 * SIDE]: distances from -SIDE to SIDE - 1 around that of the diagonal
    scratch: Any  # float32 [heads, programs, SIDE, SIDE]


class Pools(NamedTuple):
    """Block of the pooled map of every row and key."""

    of_row: Any  # int32 [Nq]
    of_key: Any  # int32 [Nk]
    row_edges: Any  # int32 [Pq + 1]
    key_blocks: int


@triton.jit
def diagonal_range(diagonal, b, rule, SIDE: tl.constexpr):
    """Row blocks of a block diagonal that hold visible cells, and whether position hides none of their cells."""
    nearest = diagonal * SIDE + rule.offset - (SIDE - 1)  # smallest and largest p_i - j on it
    farthest = diagonal * SIDE + rule.offset + (SIDE - 1)
    near, full = nearest == nearest, nearest == nearest
    if rule.causal is not None:
        full = full & (nearest >= 0)
    if rule.window is not None:
        near, full = near & (nearest < rule.window), full & (farthest < rule.window)
    if rule.left is not None:
        near = near & (nearest <= rule.left) & (-farthest <= rule.right)
        full = full & (farthest <= rule.left) & (-nearest <= rule.right)
    if rule.chunk is not None:
        near, full = near & (nearest < rule.chunk), nearest != nearest
    low = tl.maximum(diagonal, 0)
    high = tl.minimum(tl.cdiv(rule.n_query, SIDE), tl.cdiv(rule.n_key, SIDE) + diagonal)
    kept = low
    if rule.keep_first is not None:
        kept = tl.minimum(high, tl.cdiv(first_key(b, rule) + rule.keep_first, SIDE) + diagonal)
    high = tl.where(near, high, kept)
    if rule.causal is not None:
        high = tl.where(farthest >= 0, high, low)
    if rule.hides is not None:
        full = nearest != nearest
    return low, high, full


@triton.jit
def add(pointer, where, value, inside):
    """Add to partial sums that this program owns."""
    tl.store(pointer + where, tl.load(pointer + where, mask=inside, other=0) + value, mask=inside)


@triton.jit
def raise_to(pointer, where, value, inside):
    tl.store(pointer + where, tl.maximum(tl.load(pointer + where, mask=inside, other=0.0), value), mask=inside)


@triton.jit
def count_by_row(flags, KEYS: tl.constexpr, ROWS: tl.constexpr):
    """Number of true cells of each column: [KEYS, ROWS] -> int32 [ROWS].

    Columns share a number on the way across threads: a count of at most 128 fits into eight bits."""
    SHARING: tl.constexpr = 4 if ROWS >= 32 else 2
    bits = tl.arange(0, SHARING) * 8
    columns = tl.reshape(flags.to(tl.int32), [KEYS, ROWS // (8 * SHARING), SHARING, 8])
    packed = tl.sum(columns << bits[None, None, :, None], 2)
    counts = tl.sum(packed, 0)[:, None, :]  # [ROWS // (8 * SHARING), 1, 8]
    return tl.reshape((counts >> bits[None, :, None]) & 255, [ROWS])


@triton.jit
def sums_by_distance(parts, scratch, SIDE: tl.constexpr, ROWS: tl.constexpr):
    """Sums of a tile [keys, rows] over the cells with row - key = x, and over those with x - SIDE: [SIDE], [SIDE].

    The tile, given as parts of ROWS rows, goes through memory, [SIDE, SIDE] of this program's own, and is read back
    skewed, a few keys at a time: a skew in registers would need three tiles of them.
    """
    x, key, local = tl.arange(0, SIDE), tl.arange(0, SIDE), tl.arange(0, ROWS)
    for part in tl.static_range(SIDE // ROWS):
        tl.store(scratch + key[:, None] * SIDE + part * ROWS + local[None, :], parts[part])
    tl.debug_barrier()
    ahead, behind = tl.zeros([SIDE], tl.float32), tl.zeros([SIDE], tl.float32)
    for first in range(0, SIDE, 16):
        some = first + tl.arange(0, 16)[:, None]
        row = some + x[None, :]
        skewed = tl.load(scratch + some * SIDE + row % SIDE)
        ahead += tl.sum(tl.where(row < SIDE, skewed, 0.0), 0)
        behind += tl.sum(tl.where(row < SIDE, 0.0, skewed), 0)
    return ahead, behind


@triton.jit
def add_pooled(
    tile, partials, pools, owner, row0, key0, rule, KEYS: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Add a tile [keys, rows] to the blocks of the pooled map that it touches, SLOTS of them side by side at most."""
    local = tl.arange(0, KEYS)
    of_key = tl.load(pools.of_key + key0 + local, mask=key0 + local < rule.n_key, other=-1)
    first = tl.load(pools.of_row + row0)
    last = tl.load(pools.of_row + tl.minimum(row0 + ROWS, rule.n_query) - 1)
    left = tl.load(pools.of_key + key0)
    if row0 < rule.n_query:  # inside a condition, the loop does not keep the compiler from overlapping loads around it
        for strip in range(first, last + 1):
            sums, largest = sums_of_strip(tile, strip, row0, pools, ROWS)
            add_strip(sums, largest, of_key - left, partials, pools, owner, strip, left, rule, SLOTS)


@triton.jit
def sums_of_strip(tile, strip, row0, pools, ROWS: tl.constexpr):
    """Sum and maximum per key over the rows of one strip of the pooled map."""
    row = tl.arange(0, ROWS)
    top, bottom = tl.load(pools.row_edges + strip) - row0, tl.load(pools.row_edges + strip + 1) - row0
    part = tl.where(((row >= top) & (row < bottom))[None, :], tile, 0.0)
    return tl.sum(part, 1), tl.max(part, 1)


@triton.jit
def add_strip(sums, largest, of_key, partials, pools, owner, strip, left, rule, SLOTS: tl.constexpr):
    """Add sums and maxima per key, [keys], to the blocks left, left + 1 ... of one strip of the pooled map."""
    # A block keeps its slot, and so its thread, from tile to tile: no barrier is needed between them.
    slot = (tl.arange(0, SLOTS) - left % SLOTS + SLOTS) % SLOTS
    here = of_key[:, None] == slot[None, :]
    strips = tl.load(pools.of_row + rule.n_query - 1) + 1
    where = (owner * strips + strip).to(tl.int64) * pools.key_blocks + left + slot
    inside = left + slot < pools.key_blocks
    add(partials.pooled_sum, where, tl.sum(tl.where(here, sums[:, None], 0.0), 0), inside)
    raise_to(partials.pooled_max, where, tl.max(tl.where(here, largest[:, None], 0.0), 0), inside)


@triton.jit
def take_part(
    by_distance, q, k, lse, limit, partials, pools, rule, b, h, bh, owner, row0, key0, full, SCORES: tl.constexpr,
    KEYS: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A part of the rows of a tile: [KEYS, ROWS]. Parts in turn need the registers of one."""
    i, j = row0 + tl.arange(0, ROWS), key0 + tl.arange(0, KEYS)
    inside = i < rule.n_query
    s = scores(tl.dot(k, tl.trans(q), input_precision=PRECISION), b, h, i[None, :], j[:, None], rule)
    at_row = bh.to(tl.int64) * rule.n_query + i
    total = tl.load(lse + at_row, mask=inside, other=float("inf"))
    if SCORES:
        p = tl.where((total < float("inf"))[None, :], s, 0.0)
    else:
        p = tl.exp2(s - total[None, :])
    if (full == 0) | (key0 + KEYS > rule.n_key):
        seen = visible(b, h, i[None, :], j[:, None], rule)
        p = tl.where(seen, p, 0.0 if SCORES else -1.0)
    if partials.negligible is not None:
        bound = tl.load(limit + at_row, mask=inside, other=0.0)
        # As bits, weights keep their order and the -1 of a hidden cell comes after all of them.
        few = p.to(tl.uint32, bitcast=True) < bound.to(tl.uint32, bitcast=True)[None, :]
        add(partials.negligible, owner.to(tl.int64) * rule.n_query + i, count_by_row(few, KEYS, ROWS), inside)
    if not SCORES:
        p = tl.maximum(p, 0.0)
    if partials.distance is not None:
        by_distance += p
    sums, squares, largest = tl.sum(p, 1), tl.sum(p * p, 1), tl.max(p, 1)
    if partials.pooled_sum is not None:
        add_pooled(p, partials, pools, owner, row0, key0, rule, KEYS, ROWS, SLOTS)
    return by_distance, sums, squares, largest


@triton.jit(do_not_specialize=["programs", "head0", "first_diagonal", "diagonals", "n0"])
def keys_kernel(
    query, key, lse, limit, partials, pools, rule, heads, group, programs, head0, first_diagonal, diagonals, n0,
    SCORES: tl.constexpr, SIDE: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One block diagonal of one head, the n-th of `diagonals`. SCORES: sum scores and not weights."""
    n = n0 + tl.program_id(0)
    bh = head0 + tl.program_id(1)
    b, h = bh // heads, bh % heads
    owner = tl.program_id(1) * programs + tl.program_id(0)
    local, row, feature = tl.arange(0, SIDE), tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    nothing = tl.zeros([SIDE], tl.float32)
    diagonal = first_diagonal + n
    low, high, full = diagonal_range(diagonal, b, rule, SIDE)
    by_distance = (tl.zeros([SIDE, ROWS], tl.float32),) * (SIDE // ROWS)
    for block in range(low, high):
        row0, key0 = block * SIDE, (block - diagonal) * SIDE
        k = load_tile(key, b, h // group, key0, local, feature, rule.n_key, True, BLOCK_D, D)
        sums, squares, largest = nothing, nothing, nothing
        added = ()
        for part in tl.static_range(SIDE // ROWS):
            start = row0 + part * ROWS
            q = load_tile(query, b, h, start, row, feature, rule.n_query, True, BLOCK_D, D)
            total, part_sums, part_squares, part_largest = take_part(
                by_distance[part], q, k, lse, limit, partials, pools, rule, b, h, bh, owner, start, key0, full, SCORES,
                SIDE, ROWS, SLOTS, PRECISION)  # fmt: skip
            added = added + (total,)  # noqa: RUF005
            sums += part_sums
            squares += part_squares
            largest = tl.maximum(largest, part_largest)
        by_distance = added
        if partials.received is not None:
            j = key0 + local
            at = owner.to(tl.int64) * rule.n_key + j
            add(partials.received, at, sums, j < rule.n_key)
            add(partials.square, at, squares, j < rule.n_key)
            raise_to(partials.largest, at, largest, j < rule.n_key)
    if partials.distance is not None:
        scratch = partials.scratch + owner.to(tl.int64) * SIDE * SIDE
        ahead, behind = sums_by_distance(by_distance, scratch, SIDE, ROWS)
        at = (tl.program_id(1).to(tl.int64) * diagonals + n) * (2 * SIDE) + local
        tl.store(partials.distance + at, behind)
        tl.store(partials.distance + at + SIDE, ahead)


@dataclass(frozen=True, eq=False)
class Wanted:
    """What pass 2 is to sum. `limit` [B, H, Nq]: weights under it are negligible; a limit of 0 counts none."""

    keys: bool = False
    distances: bool = False
    pooled: int | None = None
    limit: Tensor | None = None
    scores: bool = False  # take scores for weights

    @property
    def but_keys(self) -> bool:
        """Something that needs more than a walk down the columns."""
        return self.distances or self.pooled is not None or self.limit is not None


def key_pass(
    query: Tensor, key: Tensor, score: ScoreSpec, rule: Rule, lse: Tensor, wanted: Wanted
) -> dict[str, Tensor]:
    """Sums over rebuilt weights: received_sum, received_max, received_square [B, H, Nk], distance_sum [B, H, Dist],
    pooled_sum, pooled_max [B, H, Pq, Pk], negligible [B, H, Nq], as wanted. lse [B, H, Nq] in units of log 2; inf for
    rows that add nothing."""
    batch, heads, n_query, _ = query.shape
    blocks = blocks_for("keys", query)
    diagonals = useful_diagonals(score, n_query, key.shape[2], blocks.keys)
    programs = max(1, min(len(diagonals), (INTERPRETED_PROGRAMS if interpreted() else PROGRAMS) // (batch * heads)))
    each = partial_bytes(wanted, programs, n_query, key.shape[2], len(diagonals) * blocks.keys)
    turn = max(1, WORKSPACE_BYTES // max(each, 1))
    parts = []
    for head in range(0, batch * heads, turn):
        count = min(turn, batch * heads - head)
        partials = new_partials(query, key, wanted, count, programs, len(diagonals), blocks.keys)
        run_keys(query, key, lse, wanted, partials, rule, head, diagonals, (programs, count), blocks)
        parts.append(add_up(partials, score, n_query, key.shape[2], diagonals, blocks.keys))
    return {name: torch.cat([part[name] for part in parts]).unflatten(0, (batch, heads)) for name in parts[0]}


def useful_diagonals(score: ScoreSpec, n_query: int, n_key: int, side: int) -> range:
    """Block diagonals (row block - key block) that can hold a visible cell."""
    lowest, highest = 1 - -(-n_key // side), -(-n_query // side) - 1
    offset = n_key - n_query if score.causal else 0
    if score.causal:
        lowest = max(lowest, -((offset + side - 1) // side))
    if not score.keep_first:
        limits = [score.window, score.chunk, None if score.around is None else score.around[0] + 1]
        for limit in limits:
            if limit is not None:  # the smallest distance on a diagonal is below the limit
                highest = min(highest, (limit - 1 - offset + side - 1) // side)
        if score.around is not None:
            lowest = max(lowest, -((score.around[1] + side - 1) // side))
    return range(lowest, max(highest, lowest) + 1)


def partial_bytes(wanted: Wanted, programs: int, n_query: int, n_key: int, distances: int) -> int:
    """Bytes of partial sums per head."""
    numbers = wanted.keys * 3 * programs * n_key + (wanted.limit is not None) * programs * n_query
    if wanted.pooled is not None:
        numbers += 2 * programs * min(wanted.pooled, n_query) * min(wanted.pooled, n_key)
    return 4 * (numbers + 2 * wanted.distances * distances)


def new_partials(
    query: Tensor, key: Tensor, wanted: Wanted, heads: int, programs: int, diagonals: int, side: int
) -> Partials:
    n_query, n_key = query.shape[2], key.shape[2]

    def zeros(asked: bool, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor | None:
        return torch.zeros(heads, *shape, dtype=dtype, device=query.device) if asked else None

    pooled = wanted.pooled is not None
    pools = (programs, min(wanted.pooled, n_query), min(wanted.pooled, n_key)) if pooled else ()
    return Partials(
        *(zeros(wanted.keys, programs, n_key) for _ in range(3)),
        zeros(wanted.limit is not None, programs, n_query, dtype=torch.int32),
        *(zeros(pooled, *pools) for _ in range(2)),
        zeros(wanted.distances, diagonals, 2 * side),
        zeros(wanted.distances, programs, side, side),
    )


def run_keys(
    query: Tensor, key: Tensor, lse: Tensor, wanted: Wanted, partials: Partials, rule: Rule,
    head: int, diagonals: range, grid: tuple[int, int], blocks: Blocks,
) -> None:  # fmt: skip
    n_query, n_key, features, side = query.shape[2], key.shape[2], query.shape[3], blocks.keys
    pools, slots = None, 1
    if wanted.pooled is not None:
        of_row, of_key = (pool_of(n, wanted.pooled, query.device) for n in (n_query, n_key))
        blocks_of_keys = min(wanted.pooled, n_key)
        row_edges = pool_edges(n_query, wanted.pooled).int().to(query.device)
        pools = Pools(of_row, of_key, row_edges, blocks_of_keys)
        slots = max(LEAST_SLOTS, triton.next_power_of_2(touched(side, n_key, blocks_of_keys)))
    programs, heads = grid
    for n in range(0, len(diagonals), programs):
        launch(
            keys_kernel, (min(programs, len(diagonals) - n), heads), operand(query), operand(key), lse, wanted.limit,
            partials, pools, rule, query.shape[1], query.shape[1] // key.shape[1], programs, head, diagonals.start,
            len(diagonals), n,
            blocks=blocks, SCORES=wanted.scores, SIDE=side, ROWS=blocks.rows, SLOTS=slots, D=features,
            BLOCK_D=padded(features), PRECISION="ieee",
        )  # fmt: skip


def touched(side: int, length: int, blocks: int) -> int:
    """Most blocks of a pooled axis that a run of `side` positions touches, starting at a multiple of `side`."""
    edges = pool_edges(length, blocks)
    starts = torch.arange(0, length, side)
    first = torch.searchsorted(edges, starts, right=True)
    last = torch.searchsorted(edges, (starts + side).clamp(max=length) - 1, right=True)
    return int((last - first).max()) + 1


def pool_of(length: int, pooled: int, device: torch.device) -> Tensor:
    """Block of the pooled axis that each position falls into: int32 [length]."""
    edges = pool_edges(length, pooled)
    return torch.repeat_interleave(torch.arange(len(edges) - 1, dtype=torch.int32), edges.diff()).to(device)


def add_up(
    partials: Partials, score: ScoreSpec, n_query: int, n_key: int, diagonals: range, side: int
) -> dict[str, Tensor]:
    """The programs' partial sums, in a fixed order."""
    sums = {
        "received_sum": partials.received,
        "received_square": partials.square,
        "pooled_sum": partials.pooled_sum,
        "negligible": partials.negligible,
    }
    totals = {name: partial.sum(1) for name, partial in sums.items() if partial is not None}
    maxima = {"received_max": partials.largest, "pooled_max": partials.pooled_max}
    totals |= {name: partial.amax(1) for name, partial in maxima.items() if partial is not None}
    if partials.distance is not None:
        totals["distance_sum"] = join_diagonals(partials.distance, score, n_query, n_key, diagonals, side)
    return totals


def join_diagonals(parts: Tensor, score: ScoreSpec, n_query: int, n_key: int, diagonals: range, side: int) -> Tensor:
    """Neighbouring diagonals overlap by half: [heads, diagonals, 2 * side] -> [heads, Dist]."""
    heads, count = parts.shape[:2]
    line = parts.new_zeros(heads, (count + 1) * side)
    line[:, : count * side] += parts[..., :side].reshape(heads, -1)
    line[:, side:] += parts[..., side:].reshape(heads, -1)
    length, zero = distance_index(score.causal, n_query, n_key)
    start = (diagonals.start - 1) * side + (n_key - n_query if score.causal else 0) + zero  # index of the line's first
    total = parts.new_zeros(heads, length)
    low, high = max(start, 0), min(start + line.shape[1], length)
    total[:, low:high] = line[:, low - start : high - start]
    return total

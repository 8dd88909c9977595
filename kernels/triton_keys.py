"""Pass 2: what needs finished weights, rebuilt tile by tile from Q, K and what pass 1 kept of each row.

One program walks along block diagonals of the map: on one of them every tile holds the same distances in the same
cells, so the sums by distance cost one addition per cell and are skewed only once, at the end of the diagonal. Tiles
are transposed, [keys, rows]: sums per key then run along a thread's own registers, and the one sum per row, the count
of negligible weights, is packed four to a number before it crosses threads.

Everything is deterministic: each program owns the partial sums it adds to, and torch adds the partial sums of the
programs in a fixed order afterwards. There are `programs` of them per head, whatever the length, so memory stays O(N).
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
from kernels.triton_rows import RowPass
from kernels.triton_score import Rule, first_key, scores, visible

PROGRAMS = 512  # on a device, over all heads: about four for each multiprocessor of a large GPU
INTERPRETED_PROGRAMS = 16
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
def count_by_row(flags, SIDE: tl.constexpr):
    """Number of true cells of each column: [SIDE, SIDE] -> int32 [SIDE]. Four columns share a number on the way across
    threads: a count of at most 128 fits into eight bits."""
    bits = tl.arange(0, 4) * 8
    columns = tl.reshape(flags.to(tl.int32), [SIDE, SIDE // 32, 4, 8])
    packed = tl.sum(columns << bits[None, None, :, None], 2)
    counts = tl.sum(packed, 0)[:, None, :]  # [SIDE // 32, 1, 8]
    return tl.reshape((counts >> bits[None, :, None]) & 255, [SIDE])


@triton.jit
def sums_by_distance(tile, scratch, SIDE: tl.constexpr):
    """Sums of a tile [keys, rows] over the cells with row - key = x, and over those with x - SIDE: [SIDE], [SIDE].

    The tile goes through memory, [SIDE, SIDE] of this program's own, and is read back skewed, a few keys at a time:
    a skew in registers would need three tiles of them.
    """
    x, key = tl.arange(0, SIDE), tl.arange(0, SIDE)
    tl.store(scratch + key[:, None] * SIDE + x[None, :], tile)
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
    tile, sums, largest, partials, pools, owner, row0, key0, rule, SIDE: tl.constexpr, SLOTS: tl.constexpr,
    STRIPS: tl.constexpr,
):  # fmt: skip
    """Add a tile [keys, rows] to the blocks of the pooled map that it touches: at most STRIPS by SLOTS."""
    i, j = row0 + tl.arange(0, SIDE), key0 + tl.arange(0, SIDE)
    of_row = tl.load(pools.of_row + i, mask=i < rule.n_query, other=-1)
    of_key = tl.load(pools.of_key + j, mask=j < rule.n_key, other=-1)
    first = tl.load(pools.of_row + row0)
    last = tl.load(pools.of_row + tl.minimum(row0 + SIDE, rule.n_query) - 1)
    left = tl.load(pools.of_key + key0)
    if STRIPS <= 3:  # a loop inside would keep the compiler from overlapping loads with arithmetic around it
        for n in tl.static_range(STRIPS):
            if first + n <= last:
                if first < last:
                    part = tl.where((of_row == first + n)[None, :], tile, 0.0)
                    sums, largest = tl.sum(part, 1), tl.max(part, 1)
                add_strip(sums, largest, of_key - left, partials, pools, owner, first + n, left, rule, SLOTS)
    else:
        for strip in range(first, last + 1):
            part = tl.where((of_row == strip)[None, :], tile, 0.0)
            sums, largest = tl.sum(part, 1), tl.max(part, 1)
            add_strip(sums, largest, of_key - left, partials, pools, owner, strip, left, rule, SLOTS)


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
def keys_kernel(
    query, key, shift, share, limit, partials, pools, rule, heads, group, head0, first_diagonal, diagonals,
    SCORES: tl.constexpr, SIDE: tl.constexpr, SLOTS: tl.constexpr, STRIPS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Every `programs`-th block diagonal of one head. SCORES: sum scores and not weights."""
    bh = head0 + tl.program_id(1)
    b, h = bh // heads, bh % heads
    owner = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    local, feature = tl.arange(0, SIDE), tl.arange(0, BLOCK_D)
    for n in range(tl.program_id(0), diagonals, tl.num_programs(0)):
        diagonal = first_diagonal + n
        low, high, full = diagonal_range(diagonal, b, rule, SIDE)
        by_distance = tl.zeros([SIDE, SIDE], tl.float32)
        for block in range(low, high):
            row0, key0 = block * SIDE, (block - diagonal) * SIDE
            i, j = row0 + local, key0 + local
            inside_rows, inside_keys = i < rule.n_query, j < rule.n_key
            q = load_tile(query, b, h, row0, local, feature, rule.n_query, True, BLOCK_D, D)
            k = load_tile(key, b, h // group, key0, local, feature, rule.n_key, True, BLOCK_D, D)
            s = scores(tl.dot(k, tl.trans(q), input_precision=PRECISION), b, h, i[None, :], j[:, None], rule)
            at_row = bh.to(tl.int64) * rule.n_query + i
            weight = tl.load(share + at_row, mask=inside_rows, other=0.0)
            if SCORES:
                p = s * (weight > 0).to(tl.float32)[None, :]
            else:
                top = tl.load(shift + at_row, mask=inside_rows, other=0.0)
                p = tl.exp2(s - top[None, :]) * weight[None, :]
            few = p < 0
            if partials.negligible is not None:
                bound = tl.load(limit + at_row, mask=inside_rows, other=-1.0)
                few = p < bound[None, :]
            if (full == 0) | (key0 + SIDE > rule.n_key):
                seen = visible(b, h, i[None, :], j[:, None], rule)
                p = tl.where(seen, p, 0.0)
                few = few & seen
            sums, largest = tl.sum(p, 1), tl.max(p, 1)
            at_key = owner.to(tl.int64) * rule.n_key + j
            if partials.received is not None:
                add(partials.received, at_key, sums, inside_keys)
                add(partials.square, at_key, tl.sum(p * p, 1), inside_keys)
                raise_to(partials.largest, at_key, largest, inside_keys)
            if partials.negligible is not None:
                at = owner.to(tl.int64) * rule.n_query + i
                add(partials.negligible, at, count_by_row(few, SIDE), inside_rows)
            if partials.pooled_sum is not None:
                add_pooled(p, sums, largest, partials, pools, owner, row0, key0, rule, SIDE, SLOTS, STRIPS)
            if partials.distance is not None:
                by_distance += p
        if partials.distance is not None:
            ahead, behind = sums_by_distance(by_distance, partials.scratch + owner.to(tl.int64) * SIDE * SIDE, SIDE)
            at = (tl.program_id(1).to(tl.int64) * diagonals + n) * (2 * SIDE) + local
            tl.store(partials.distance + at, behind)
            tl.store(partials.distance + at + SIDE, ahead)
        tl.debug_barrier()  # the next diagonal adds to the same keys and rows


@dataclass(frozen=True, eq=False)
class Wanted:
    """What pass 2 is to sum. `limit` [B, H, Nq]: weights under it are negligible; a negative limit counts none."""

    keys: bool = False
    distances: bool = False
    pooled: int | None = None
    limit: Tensor | None = None
    scores: bool = False  # take scores for weights


def key_pass(
    query: Tensor, key: Tensor, score: ScoreSpec, rule: Rule, rows: RowPass, real: Tensor, wanted: Wanted
) -> dict[str, Tensor]:
    """Sums over rebuilt weights: received_sum, received_max, received_square [B, H, Nk], distance_sum [B, H, Dist],
    pooled_sum, pooled_max [B, H, Pq, Pk], negligible [B, H, Nq], as wanted. real [B, Nq]: rows that count."""
    batch, heads, n_query, _ = query.shape
    blocks = blocks_for("keys", query, 0)
    share = rows.share * real[:, None]
    diagonals = useful_diagonals(score, n_query, key.shape[2], blocks.rows)
    programs = max(1, min(len(diagonals), (INTERPRETED_PROGRAMS if interpreted() else PROGRAMS) // (batch * heads)))
    each = partial_bytes(wanted, programs, n_query, key.shape[2], len(diagonals) * blocks.rows)
    turn = max(1, WORKSPACE_BYTES // max(each, 1))
    parts = []
    for head in range(0, batch * heads, turn):
        count = min(turn, batch * heads - head)
        partials = new_partials(query, key, wanted, count, programs, len(diagonals), blocks.rows)
        run_keys(query, key, rows.shift, share, wanted, partials, rule, head, diagonals, (programs, count), blocks)
        parts.append(add_up(partials, score, n_query, key.shape[2], diagonals, blocks.rows))
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
    query: Tensor, key: Tensor, shift: Tensor, share: Tensor, wanted: Wanted, partials: Partials, rule: Rule,
    head: int, diagonals: range, grid: tuple[int, int], blocks: Blocks,
) -> None:  # fmt: skip
    n_query, n_key, features, side = query.shape[2], key.shape[2], query.shape[3], blocks.rows
    pools, slots, strips = None, 1, 1
    if wanted.pooled is not None:
        of_row, of_key = (pool_of(n, wanted.pooled, query.device) for n in (n_query, n_key))
        blocks_of_keys = min(wanted.pooled, n_key)
        pools = Pools(of_row, of_key, blocks_of_keys)
        slots = triton.next_power_of_2(min(blocks_of_keys, touched(side, n_key, blocks_of_keys)))
        strips = touched(side, n_query, min(wanted.pooled, n_query))
    launch(
        keys_kernel, grid, operand(query), operand(key), shift, share, wanted.limit, partials, pools, rule,
        query.shape[1], query.shape[1] // key.shape[1], head, diagonals.start, len(diagonals),
        blocks=blocks, SCORES=wanted.scores, SIDE=side, SLOTS=slots, STRIPS=min(strips, 4), D=features,
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

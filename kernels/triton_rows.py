"""Pass 1: output, log-sum-exp and everything a row can say of itself while its keys stream past.

One program holds a block of rows and walks over the keys they may see, keeping a running maximum m and, relative to
it, running sums over e = exp2(s - m): the mass sum e, and sum e (s - m) for the entropy, sum e^2, sum e |p_i - j|,
sum e V. The entropy is ln mass - sum e (s - m) / mass, a difference of small numbers however large the scores are.

What pass 2 needs of a row is m and 1 / mass: a weight is exp2(s - m) / mass, and rows sum to 1 at any size of score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.score import ScoreSpec, query_positions
from kernels.triton_launch import blocks_for, launch, load_tile, operand, padded
from kernels.triton_score import LN2, LOG2E, Rule, first_key, scores, visible


class RowSums(NamedTuple):
    """Where pass 1 writes, each [B * H, Nq]; None = not asked for."""

    lse: Any
    shift: Any
    share: Any
    entropy: Any
    max_weight: Any
    max_key: Any
    sum_square: Any
    mean_distance: Any
    sink_mass: Any
    duplicate: Any
    induction: Any


class Tokens(NamedTuple):
    """Token codes as int32, equal where tokens are equal; what stands for no token has a code of its own."""

    own: Any  # [B, Nq]
    here: Any  # [B, Nk]
    before: Any  # [B, Nk], of the token that the key follows


@triton.jit
def take_keys(
    state, q, key, value, tokens, own, b, h, kv, i0, i, low, high, rule, MASKED: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Fold the keys low <= j < high into the running sums of a block of rows."""
    acc, m, mass, moment, square, distance, best, duplicate, induction, duplicates, inductions = state
    local = tl.arange(0, KEYS)
    column = local.to(tl.float32)
    position = i + rule.offset
    for j0 in range(low, high, KEYS):
        j = j0 + local
        k = load_tile(key, b, kv, j0, local, tl.arange(0, BLOCK_D), rule.n_key, MASKED, BLOCK_D, D)
        s = scores(tl.dot(q, tl.trans(k), input_precision=PRECISION), b, h, i[:, None], j[None, :], rule)
        if MASKED:
            seen = visible(b, h, i[:, None], j[None, :], rule)
            # Key ranges may overlap by a part of a block where keep_first opens keys before the window.
            seen = seen & (j < high)[None, :]
            s = tl.where(seen, s, float("-inf"))
        largest = tl.max(s, 1)
        m_new = tl.maximum(m, largest)
        base = tl.where(m_new == float("-inf"), 0.0, m_new)
        fall = tl.maximum(tl.where(m == float("-inf"), 0.0, m - base), -256.0)  # exp2 is 0 there, and stays a number
        c = tl.exp2(fall)
        x = s - base[:, None]
        if MASKED:
            x = tl.maximum(x, -256.0)
        e = tl.exp2(x)
        if ROWS:
            moment = (moment + mass * fall) * c + tl.sum(e * x, 1)
            square = square * c * c + tl.sum(e * e, 1)
            apart = tl.abs((position - j0).to(tl.float32)[:, None] - column[None, :])
            distance = distance * c + tl.sum(e * apart, 1)
            at = tl.min(tl.where(s == largest[:, None], column[None, :], KEYS), 1)
            best = tl.where(largest > m, j0 + at.to(tl.int32), best)
        if tokens is not None:
            inside = j < rule.n_key
            here = tl.load(tokens.here + b.to(tl.int64) * rule.n_key + j, mask=inside, other=-3)
            before = tl.load(tokens.before + b.to(tl.int64) * rule.n_key + j, mask=inside, other=-3)
            same = (own[:, None] == here[None, :]) & (j[None, :] < position[:, None])
            follows = (own[:, None] == before[None, :]) & (j[None, :] <= position[:, None])
            if MASKED:
                same, follows = same & seen, follows & seen
            duplicate = duplicate * c + tl.sum(tl.where(same, e, 0.0), 1)
            induction = induction * c + tl.sum(tl.where(follows, e, 0.0), 1)
            duplicates = tl.maximum(duplicates, tl.max(same.to(tl.int32), 1))
            inductions = tl.maximum(inductions, tl.max(follows.to(tl.int32), 1))
        mass = mass * c + tl.sum(e, 1)
        v = load_tile(value, b, kv, j0, local, tl.arange(0, BLOCK_V), rule.n_key, MASKED, BLOCK_V, DV)
        if MASKED and rule.hides is not None:
            v = tl.where(tl.max(seen.to(tl.int32), 0)[:, None] != 0, v, 0.0)  # a hidden NaN stays hidden
        acc = tl.dot(e.to(v.dtype), v, acc * c[:, None], input_precision=PRECISION)
        m = m_new
    return acc, m, mass, moment, square, distance, best, duplicate, induction, duplicates, inductions


@triton.jit
def key_ranges(b, i0, rule, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """Keys that a block of rows can see, as block borders: those kept first end at `kept`; the others begin at `low`,
    are visible to every row from `full_low` to `full_high`, and end at `high`."""
    first = first_key(b, rule)
    nearest, farthest = i0 + rule.offset, tl.minimum(i0 + ROWS, rule.n_query) - 1 + rule.offset
    low, high = i0 * 0, i0 * 0 + rule.n_key
    full_low, full_high = low, high
    if rule.causal is not None:
        high = tl.minimum(high, farthest + 1)
        full_high = tl.minimum(full_high, nearest + 1)
    if rule.window is not None:
        low = tl.maximum(low, nearest - rule.window + 1)
        full_low = tl.maximum(full_low, farthest - rule.window + 1)
    if rule.left is not None:
        low = tl.maximum(low, nearest - rule.left)
        high = tl.minimum(high, farthest + rule.right + 1)
        full_low = tl.maximum(full_low, farthest - rule.left)
        full_high = tl.minimum(full_high, nearest + rule.right + 1)
    if rule.chunk is not None:
        low = tl.maximum(low, first + (nearest - first) // rule.chunk * rule.chunk)
        full_low = tl.maximum(full_low, first + (farthest - first) // rule.chunk * rule.chunk)
    low = tl.maximum(tl.minimum(low, rule.n_key), 0) // KEYS * KEYS
    high = tl.maximum(high, low)
    kept = i0 * 0
    if rule.keep_first is not None:
        end = first + rule.keep_first
        if rule.causal is not None:
            end = tl.minimum(end, farthest + 1)
        kept = tl.maximum(tl.minimum(end, low), 0)
        # Kept keys inside the band, and with a right edge beyond it, are visible too: walk up to them.
        high = tl.maximum(high, tl.minimum(end, rule.n_key))
    full_low = tl.minimum(tl.cdiv(tl.maximum(full_low, low), KEYS) * KEYS, high)
    full_high = tl.maximum(full_high // KEYS * KEYS, full_low)
    if rule.hides is not None:
        full_low, full_high = low, low
    return kept, low, full_low, full_high, high


@triton.jit
def rows_kernel(
    query, key, value, output, sums, tokens, rule, heads, group, ROWS_WANTED: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of rows of one head."""
    i0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * ROWS  # the longest rows first
    bh = tl.program_id(1)
    b, h = bh // heads, bh % heads
    kv = h // group
    local = tl.arange(0, ROWS)
    i = i0 + local
    q = load_tile(query, b, h, i0, local, tl.arange(0, BLOCK_D), rule.n_query, True, BLOCK_D, D)
    own = i
    if tokens is not None:
        own = tl.load(tokens.own + b.to(tl.int64) * rule.n_query + i, mask=i < rule.n_query, other=-1)

    zero, none = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.int32)
    m = tl.full([ROWS], float("-inf"), tl.float32)
    state = (tl.zeros([ROWS, BLOCK_V], tl.float32), m, zero, zero, zero, zero, none - 1, zero, zero, none, none)
    kept, low, full_low, full_high, high = key_ranges(b, i0, rule, ROWS, KEYS)
    if rule.keep_first is not None:
        state = take_keys(state, q, key, value, tokens, own, b, h, kv, i0, i, kept * 0, kept, rule, True, ROWS_WANTED,
                          KEYS, D, DV, BLOCK_D, BLOCK_V, PRECISION)  # fmt: skip
    if (rule.window is not None or rule.left is not None) or rule.chunk is not None:
        state = take_keys(state, q, key, value, tokens, own, b, h, kv, i0, i, low, full_low, rule, True, ROWS_WANTED,
                          KEYS, D, DV, BLOCK_D, BLOCK_V, PRECISION)  # fmt: skip
    if rule.hides is None:
        state = take_keys(state, q, key, value, tokens, own, b, h, kv, i0, i, full_low, full_high, rule, False,
                          ROWS_WANTED, KEYS, D, DV, BLOCK_D, BLOCK_V, PRECISION)  # fmt: skip
    state = take_keys(state, q, key, value, tokens, own, b, h, kv, i0, i, full_high, high, rule, True, ROWS_WANTED,
                      KEYS, D, DV, BLOCK_D, BLOCK_V, PRECISION)  # fmt: skip
    store_rows(state, output, sums, rule, b, h, bh, i0, local, ROWS_WANTED, DV, BLOCK_V)


@triton.jit
def store_rows(
    state, output, sums, rule, b, h, bh, i0, local, ROWS_WANTED: tl.constexpr, DV: tl.constexpr, BLOCK_V: tl.constexpr
):
    """Bring in the learned sink, divide by the sum and write. Rows that see no key: output 0, measures NaN."""
    acc, m, mass, moment, square, distance, best, duplicate, induction, duplicates, inductions = state
    top = m
    if rule.sink is not None:
        sink = tl.zeros_like(m) + tl.load(rule.sink + h) * LOG2E
        top = tl.maximum(m, sink)
    top = tl.where(top == float("-inf"), 0.0, top)
    fall = tl.maximum(tl.where(m == float("-inf"), 0.0, m - top), -256.0)
    c = tl.exp2(fall)
    total, sink_part = mass * c, mass * 0.0
    if rule.sink is not None:
        sink_part = tl.exp2(sink - top)
        total += sink_part
    share = 1.0 / tl.where(total > 0, total, 1.0)
    i = i0 + local
    inside = i < rule.n_query
    at = bh.to(tl.int64) * rule.n_query + i
    bits = tl.where(total > 0, tl.log2(tl.where(total > 0, total, 1.0)), float("-inf"))
    tl.store(sums.lse + at, (top + bits) * LN2, mask=inside)
    tl.store(sums.shift + at, top, mask=inside)
    tl.store(sums.share + at, tl.where(mass > 0, share, 0.0), mask=inside)
    weight = c * share  # of the largest score
    if ROWS_WANTED:
        moment = (moment + mass * fall) * c
        outcome = sink_part * share
        if rule.sink is not None:
            moment += sink_part * tl.maximum(sink - top, -256.0)
            tl.store(sums.sink_mass + at, outcome, mask=inside)
        entropy = (bits - moment * share) * LN2
        tl.store(sums.entropy + at, tl.maximum(entropy, 0.0), mask=inside)
        tl.store(sums.max_weight + at, weight, mask=inside)
        tl.store(sums.max_key + at, best, mask=inside)
        tl.store(sums.sum_square + at, square * weight * weight + outcome * outcome, mask=inside)
        tl.store(sums.mean_distance + at, distance * weight, mask=inside)
    if sums.duplicate is not None:
        tl.store(sums.duplicate + at, tl.where(duplicates > 0, duplicate * weight, float("nan")), mask=inside)
        tl.store(sums.induction + at, tl.where(inductions > 0, induction * weight, float("nan")), mask=inside)
    feature = tl.arange(0, BLOCK_V)
    where = output.pointer + b.to(tl.int64) * output.batch + h.to(tl.int64) * output.head
    where += i0.to(tl.int64) * output.row
    where += local[:, None] * output.row + feature[None, :] * output.feature
    result = (acc * weight[:, None]).to(output.pointer.dtype.element_ty)
    tl.store(where, result, mask=inside[:, None] & (feature < DV)[None, :])


@dataclass(frozen=True, eq=False)
class RowPass:
    """What pass 1 gives: the output, how scores become weights, the measures by name (all rows, padded ones too)."""

    output: Tensor
    lse: Tensor
    shift: Tensor  # [B, H, Nq] float32, in units of log 2
    share: Tensor  # [B, H, Nq] float32; 0 where the row sees no key
    measures: dict[str, Tensor]


def row_pass(
    query: Tensor, key: Tensor, value: Tensor, score: ScoreSpec, rule: Rule, *, rows: bool, tokens: Tensor | None
) -> RowPass:
    """Run pass 1. Shapes as in kernels/api.py; `value` may be of another type than the query, the output is of its."""
    batch, heads, n_query, features = query.shape
    columns = value.shape[-1]
    output = query.new_empty(batch, heads, n_query, columns, dtype=value.dtype)
    names = ["lse", "shift", "share"]
    names += ["entropy", "max_weight", "max_key", "sum_square", "mean_distance"] if rows else []
    names += ["sink_mass"] if rows and score.sink is not None else []
    names += ["duplicate", "induction"] if tokens is not None else []
    made = {
        name: query.new_empty(batch, heads, n_query, dtype=torch.int32 if name == "max_key" else torch.float32)
        for name in names
    }
    blocks = blocks_for("rows" if tokens is None else "rows+tokens", query, columns)
    launch(
        rows_kernel,
        (triton.cdiv(n_query, blocks.rows), batch * heads),
        operand(query), operand(key), operand(value), operand(output),
        RowSums(**{name: made.get(name) for name in RowSums._fields}),
        None if tokens is None else token_codes(score, tokens, batch, n_query),
        rule, heads, heads // key.shape[1], rows,
        blocks=blocks, ROWS=blocks.rows, KEYS=blocks.keys, D=features, DV=columns,
        BLOCK_D=padded(features), BLOCK_V=padded(columns), PRECISION="ieee",
    )  # fmt: skip
    renamed = {"sink_mass": "learned_sink_mass", "duplicate": "duplicate_mass", "induction": "induction_mass"}
    measures = {renamed.get(name, name): made[name] for name in names[3:]}
    return RowPass(output, made["lse"], made["shift"], made["share"], measures)


def token_codes(score: ScoreSpec, tokens: Tensor, batch: int, n_query: int) -> Tokens:
    """Codes for comparing tokens [B or 1, Nk]: the row's own is -1 where it stands outside the keys, `before` is -2
    where a key follows no real token."""
    n_key, device = tokens.shape[1], tokens.device
    here = torch.unique(tokens.expand(batch, n_key), return_inverse=True)[1].int()
    position = query_positions(score, n_query, n_key, device)
    known = (position >= 0) & (position < n_key)
    own = here[:, position.clamp(0, n_key - 1)].masked_fill(~known, -1)
    before = torch.full_like(here, -2)
    before[:, 1:] = here[:, :-1]
    if score.key_padding is not None:
        before[:, 1:].masked_fill_(~(score.key_padding[:, 1:] & score.key_padding[:, :-1]), -2)
    return Tokens(own.contiguous(), here.contiguous(), before)

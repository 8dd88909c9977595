"""Weights of single cells: one key per row (itself, the one before, the first), gathered after pass 1."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.triton_launch import blocks_for, launch, load_tile, operand, padded
from kernels.triton_rows import RowPass
from kernels.triton_score import Rule, first_key, scores, visible


@triton.jit
def weight_of_pair(
    q,
    key,
    top,
    share,
    b,
    h,
    kv,
    i,
    j,
    rule,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Weight of key j[r] in row i[r]; NaN where the row may not see it."""
    feature = tl.arange(0, BLOCK_D)
    seen = visible(b, h, i, j, rule)
    start = key.pointer + b.to(tl.int64) * key.batch + kv.to(tl.int64) * key.head
    where = start + j.to(tl.int64)[:, None] * key.row + feature[None, :] * key.feature
    k = tl.load(where, mask=seen[:, None] & (feature < D)[None, :], other=0.0)
    # The diagonal of a product of tiles, so that the score is rounded as pass 1 rounded it: at 1e6 this shows.
    product = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    row = tl.arange(0, ROWS)
    product = tl.sum(tl.where(row[:, None] == row[None, :], product, 0.0), 1)
    s = scores(product, b, h, i, tl.where(seen, j, 0), rule)
    return tl.where(seen, tl.exp2(s - top) * share, float("nan"))


@triton.jit
def pairs_kernel(
    query, key, shift, share, own, previous, first, rule, heads, group, ROWS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A block of rows of one head, three keys for each."""
    i0, bh = tl.program_id(0) * ROWS, tl.program_id(1)
    b, h = bh // heads, bh % heads
    kv = h // group
    local = tl.arange(0, ROWS)
    i = i0 + local
    inside = i < rule.n_query
    q = load_tile(query, b, h, i0, local, tl.arange(0, BLOCK_D), rule.n_query, True, BLOCK_D, D)
    at = bh.to(tl.int64) * rule.n_query + i
    top, part = tl.load(shift + at, mask=inside, other=0.0), tl.load(share + at, mask=inside, other=0.0)
    position = i + rule.offset
    tl.store(
        own + at,
        weight_of_pair(q, key, top, part, b, h, kv, i, position, rule, ROWS, D, BLOCK_D, PRECISION),
        mask=inside,
    )
    tl.store(
        previous + at,
        weight_of_pair(q, key, top, part, b, h, kv, i, position - 1, rule, ROWS, D, BLOCK_D, PRECISION),
        mask=inside,
    )
    start = tl.zeros_like(i) + first_key(b, rule)
    tl.store(
        first + at,
        weight_of_pair(q, key, top, part, b, h, kv, i, start, rule, ROWS, D, BLOCK_D, PRECISION),
        mask=inside,
    )


def pair_measures(query: Tensor, key: Tensor, rule: Rule, rows: RowPass) -> dict[str, Tensor]:
    """self_mass, previous_mass and first_mass [B, H, Nq] float32, NaN where the row may not see that key."""
    batch, heads, n_query, features = query.shape
    made = [torch.empty_like(rows.shift) for _ in range(3)]
    blocks = blocks_for("pairs", query)
    launch(
        pairs_kernel, (triton.cdiv(n_query, blocks.rows), batch * heads), operand(query), operand(key),
        rows.shift, rows.share, *made, rule, heads, heads // key.shape[1],
        blocks=blocks, ROWS=blocks.rows, D=features, BLOCK_D=padded(features), PRECISION="ieee",
    )  # fmt: skip
    return dict(zip(("self_mass", "previous_mass", "first_mass"), made, strict=True))

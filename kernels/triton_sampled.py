"""Whole rows of the map, for what needs sorted weights: coverage on sampled rows, strongest keys of every row.

A chunk of rows is rebuilt from Q, K and what pass 1 kept, then sorted by torch. Memory holds one chunk.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.measures import COVERAGE_SLACK, SHARES, sampled_rows
from kernels.triton_launch import blocks_for, launch, load_tile, operand, padded
from kernels.triton_rows import RowPass
from kernels.triton_score import Rule, scores, visible

CELLS_AT_ONCE = 1 << 26  # 256 MB of weights; sorting needs about four times that for a moment


@triton.jit
def whole_rows_kernel(
    query, key, shift, share, listed, result, rule, heads, group, head0, row0, count, ROWS: tl.constexpr,
    KEYS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Weights of a tile of listed rows: result [heads, count, Nk], -1 where hidden."""
    key0 = tl.program_id(0) * KEYS
    bh = head0 + tl.program_id(2)
    b, h = bh // heads, bh % heads
    at, j = tl.program_id(1) * ROWS + tl.arange(0, ROWS), key0 + tl.arange(0, KEYS)
    feature = tl.arange(0, BLOCK_D)
    i = tl.load(listed + row0 + at, mask=at < count, other=-1)
    start = query.pointer + b.to(tl.int64) * query.batch + h.to(tl.int64) * query.head
    where = start + i[:, None] * query.row + feature[None, :] * query.feature
    q = tl.load(where, mask=(i >= 0)[:, None] & (feature < D)[None, :], other=0.0)
    k = load_tile(key, b, h // group, key0, tl.arange(0, KEYS), feature, rule.n_key, True, BLOCK_D, D)
    s = scores(tl.dot(q, tl.trans(k), input_precision=PRECISION), b, h, i[:, None], j[None, :], rule)
    at_row = bh.to(tl.int64) * rule.n_query + i
    top, part = tl.load(shift + at_row, mask=i >= 0, other=0.0), tl.load(share + at_row, mask=i >= 0, other=0.0)
    p = tl.exp2(s - top[:, None]) * part[:, None]
    p = tl.where(visible(b, h, i[:, None], j[None, :], rule), p, -1.0)
    where = result + (tl.program_id(2).to(tl.int64) * count + at.to(tl.int64)[:, None]) * rule.n_key + j[None, :]
    tl.store(where, p, mask=(at < count)[:, None] & (j < rule.n_key)[None, :])


def whole_rows(
    query: Tensor, key: Tensor, rule: Rule, rows: RowPass, listed: Tensor, heads: range, chunk: range
) -> Tensor:
    """Weights of the rows listed[chunk] (int64) of some of the batch * H heads: [heads, chunk, Nk], -1 where hidden."""
    n_key, features, blocks = key.shape[2], query.shape[3], blocks_for("whole_rows", query)
    result = query.new_empty(len(heads), len(chunk), n_key, dtype=torch.float32)
    launch(
        whole_rows_kernel,
        (triton.cdiv(n_key, blocks.keys), triton.cdiv(len(chunk), blocks.rows), len(heads)),
        operand(query), operand(key), rows.shift, rows.share, listed, result, rule,
        query.shape[1], query.shape[1] // key.shape[1], heads.start, chunk.start, len(chunk),
        blocks=blocks, ROWS=blocks.rows, KEYS=blocks.keys, D=features, BLOCK_D=padded(features), PRECISION="ieee",
    )  # fmt: skip
    return result


def in_chunks(n_heads: int, n_rows: int, n_key: int) -> list[tuple[range, range]]:
    """(heads, rows) of chunks that hold CELLS_AT_ONCE cells at most, as long as one row fits."""
    at_once = max(1, CELLS_AT_ONCE // n_key)
    rows_each = min(n_rows, at_once)
    heads_each = max(1, at_once // rows_each)
    return [
        (range(head, min(head + heads_each, n_heads)), range(row, min(row + rows_each, n_rows)))
        for head in range(0, n_heads, heads_each)
        for row in range(0, n_rows, rows_each)
    ]


def coverage(query: Tensor, key: Tensor, rule: Rule, rows: RowPass, seen: Tensor, sampled: int) -> dict[str, Tensor]:
    """sampled_rows [S] and coverage [B, H, S, 5]. seen [B, H or 1, Nq]: rows that count and see a key."""
    batch, heads, n_query, _ = query.shape
    listed = sampled_rows(n_query, sampled).to(query.device)
    needed = listed.new_empty(batch * heads, len(listed), len(SHARES))
    for some, chunk in in_chunks(batch * heads, len(listed), key.shape[2]):
        weights = whole_rows(query, key, rule, rows, listed, some, chunk).clamp_(min=0.0)
        # float64: a float32 running sum over many keys would drift past the slack.
        held = weights.sort(-1, descending=True).values.cumsum(-1, dtype=torch.float64)
        held /= held[..., -1:].clone()
        for n, wanted in enumerate(SHARES):
            needed[some.start : some.stop, chunk.start : chunk.stop, n] = (held < wanted - COVERAGE_SLACK).sum(-1) + 1
    needed = needed.unflatten(0, (batch, heads)) * seen[:, :, listed, None]
    return {"sampled_rows": listed, "coverage": needed}


def strongest(query: Tensor, key: Tensor, rule: Rule, rows: RowPass, seen: Tensor, top: int) -> dict[str, Tensor]:
    """top_keys, top_weights [B, H, Nq, top]: strongest first, the lowest of equals first; -1 and NaN past the end."""
    batch, heads, n_query, _ = query.shape
    n_key, device = key.shape[2], query.device
    kept = min(top, n_key)
    listed = torch.arange(n_query, device=device)
    keys = torch.full((batch * heads, n_query, top), -1, device=device)
    values = torch.full((batch * heads, n_query, top), torch.nan, device=device)
    after = (1 << 31) - 1 - torch.arange(n_key, device=device)  # lower keys first among equals
    for some, chunk in in_chunks(batch * heads, n_query, 2 * n_key):
        weights = whole_rows(query, key, rule, rows, listed, some, chunk)
        # Bits of floats of 0 and more rise with them, and those of -1 are a negative number: one exact order of all.
        order = (weights.view(torch.int32).to(torch.int64) << 32) | after
        best = after[0] - (order.topk(kept, -1).values & 0x7FFFFFFF)
        strength = weights.gather(-1, best)
        where = (slice(some.start, some.stop), slice(chunk.start, chunk.stop), slice(0, kept))
        keys[where] = best.masked_fill(strength < 0, -1)
        values[where] = strength.masked_fill(strength < 0, torch.nan)
    unseen = ~seen[..., None].expand(batch, heads, n_query, top)
    shape = (batch, heads, n_query, top)
    return {
        "top_keys": keys.view(shape).masked_fill(unseen, -1),
        "top_weights": values.view(shape).masked_fill(unseen, torch.nan),
    }

"""Mean and variance of the scores of each row, every visible key alike."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.triton_launch import blocks_for, launch, load_tile, operand, padded
from kernels.triton_rows import key_ranges
from kernels.triton_score import LN2, Rule, scores, visible


@triton.jit
def moments_kernel(
    query, key, mean_of, variance_of, rule, heads, group, ROWS: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr,
    BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A block of rows of one head. Tiles are merged by their own means, so that large scores do not cancel."""
    i0, bh = tl.program_id(0) * ROWS, tl.program_id(1)
    b, h = bh // heads, bh % heads
    local, column, feature = tl.arange(0, ROWS), tl.arange(0, KEYS), tl.arange(0, BLOCK_D)
    i = i0 + local
    q = load_tile(query, b, h, i0, local, feature, rule.n_query, True, BLOCK_D, D)
    count, mean, spread = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    kept, low, _, _, high = key_ranges(b, i0, rule, ROWS, KEYS)
    first = tl.where(kept > 0, 0, low)
    for j0 in range(first, high, KEYS):
        j = j0 + column
        k = load_tile(key, b, h // group, j0, column, feature, rule.n_key, True, BLOCK_D, D)
        s = scores(tl.dot(q, tl.trans(k), input_precision=PRECISION), b, h, i[:, None], j[None, :], rule)
        seen = visible(b, h, i[:, None], j[None, :], rule)
        number = tl.sum(seen.to(tl.float32), 1)
        here = tl.sum(tl.where(seen, s, 0.0), 1) / tl.maximum(number, 1.0)
        away = tl.where(seen, s - here[:, None], 0.0)
        total = tl.maximum(count + number, 1.0)
        step = here - mean
        spread += tl.sum(away * away, 1) + step * step * (count * number / total)
        mean += step * (number / total)
        count += number
    at = bh.to(tl.int64) * rule.n_query + i
    tl.store(mean_of + at, mean, mask=i < rule.n_query)
    tl.store(variance_of + at, spread / tl.maximum(count, 1.0), mask=i < rule.n_query)


def score_moments(query: Tensor, key: Tensor, rule: Rule) -> dict[str, Tensor]:
    """score_mean and score_variance [B, H, Nq] float32, of all rows; meaningless where a row sees no key."""
    batch, heads, n_query, features = query.shape
    made = [query.new_empty(batch, heads, n_query, dtype=torch.float32) for _ in range(2)]
    blocks = blocks_for("moments", query)
    launch(
        moments_kernel, (triton.cdiv(n_query, blocks.rows), batch * heads), operand(query), operand(key), *made, rule,
        heads, heads // key.shape[1],
        blocks=blocks, ROWS=blocks.rows, KEYS=blocks.keys, D=features, BLOCK_D=padded(features), PRECISION="ieee",
    )  # fmt: skip
    return {"score_mean": made[0] * LN2.value, "score_variance": made[1] * LN2.value**2}

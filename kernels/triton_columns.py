"""Pass 2 where only the measures per key are wanted: one program holds a block of keys and walks down its rows.

The keys stay where they are, so that a step loads only queries, and the sums stay in registers until the end.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.triton_keys import Partials, diagonal_range, take_part
from kernels.triton_launch import blocks_for, launch, load_tile, operand, padded
from kernels.triton_score import Rule


@triton.jit
def columns_kernel(
    query, key, lse, received, largest_of, square, partials, rule, heads, group, SIDE: tl.constexpr,
    ROWS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of keys of one head. `partials` asks for nothing."""
    column, bh = tl.program_id(0), tl.program_id(1)
    b, h = bh // heads, bh % heads
    key0 = column * SIDE
    local, row, feature = tl.arange(0, SIDE), tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    k = load_tile(key, b, h // group, key0, local, feature, rule.n_key, True, BLOCK_D, D)
    sums, squares = tl.zeros([SIDE], tl.float32), tl.zeros([SIDE], tl.float32)
    largest, nothing = tl.zeros([SIDE], tl.float32), tl.zeros([SIDE, ROWS], tl.float32)
    low, high = column * 0, column * 0 + rule.n_query
    if rule.causal is not None:
        low = tl.maximum(key0 - rule.offset, 0) // SIDE * SIDE
    if rule.window is not None and rule.keep_first is None:
        high = tl.minimum(high, key0 + SIDE - 1 + rule.window - rule.offset)
    for row0 in range(low, high, ROWS):
        _, _, full = diagonal_range(row0 // SIDE - column, b, rule, SIDE)
        q = load_tile(query, b, h, row0, row, feature, rule.n_query, True, BLOCK_D, D)
        _, part_sums, part_squares, part_largest = take_part(
            nothing, q, k, lse, None, partials, None, rule, b, h, bh, bh, row0, key0, full, False, SIDE, ROWS, 1,
            PRECISION)  # fmt: skip
        sums += part_sums
        squares += part_squares
        largest = tl.maximum(largest, part_largest)
    j = key0 + local
    at = bh.to(tl.int64) * rule.n_key + j
    tl.store(received + at, sums, mask=j < rule.n_key)
    tl.store(square + at, squares, mask=j < rule.n_key)
    tl.store(largest_of + at, largest, mask=j < rule.n_key)


def column_pass(query: Tensor, key: Tensor, rule: Rule, lse: Tensor) -> dict[str, Tensor]:
    """received_sum, received_max, received_square [B, H, Nk]. lse [B, H, Nq] in units of log 2; inf for rows that add
    nothing."""
    batch, heads, _, features = query.shape
    n_key, blocks = key.shape[2], blocks_for("keys", query)
    made = [query.new_empty(batch, heads, n_key, dtype=torch.float32) for _ in range(3)]
    launch(
        columns_kernel, (triton.cdiv(n_key, blocks.keys), batch * heads), operand(query), operand(key), lse, *made,
        Partials(*(None for _ in Partials._fields)), rule, heads, heads // key.shape[1],
        blocks=blocks, SIDE=blocks.keys, ROWS=blocks.rows, D=features, BLOCK_D=padded(features), PRECISION="ieee",
    )  # fmt: skip
    return dict(zip(("received_sum", "received_max", "received_square"), made, strict=True))

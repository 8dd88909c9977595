"""How the Triton kernels read a ScoreSpec: the rule as kernel arguments, and the two functions that apply it.

`scores` and `visible` take tensors of rows i and keys j that broadcast against each other, so that one text serves
tiles [rows, keys], transposed tiles [keys, rows] and single pairs. Scores are in units of log 2 (times log2 e) from
here on: the weight is exp2(score - shift), and the change of base costs nothing, being folded into the scale.

A field that the ScoreSpec leaves out is None in the rule. Triton specialises on None: what is not asked for is not in
the machine code.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.score import ScoreSpec, first_real_key, row_bias_groups

LOG2E = tl.constexpr(math.log2(math.e))
LN2 = tl.constexpr(math.log(2.0))
FLOOR = tl.constexpr(-3.0e38)  # lowest score of a visible cell: finite, so that differences of scores stay numbers


class Cells(NamedTuple):
    """A tensor of the rule with its strides over the axes of a map; an axis of length 1 has stride 0."""

    pointer: Any
    batch: int
    head: int
    row: int
    key: int


class Rule(NamedTuple):
    """ScoreSpec as kernel arguments; None = the field does not apply."""

    n_query: int
    n_key: int
    offset: int  # row i stands at position i + offset
    scale: float  # times log2 e; with softcap: divided by it
    causal: Any  # 1 or None
    window: Any
    left: Any
    right: Any
    chunk: Any
    keep_first: Any
    first: Any  # int32 [B], the first real key
    softcap: Any  # times log2 e
    by_distance: Any  # Cells whose key stride is that of the distance
    inverse_temperature: Any  # float32 [H]
    key_bias: Any
    row_bias: Any  # Cells whose key stride is that of the group of keys
    row_bias_keys: Any  # Cells: the group of each key, -1 = none
    bias: Any
    key_padding: Any
    mask: Any
    sink: Any  # float32 [H]
    hides: Any  # 1 where cells can be hidden by data and not only by their position


def rule_of(score: ScoreSpec, batch: int, n_query: int, n_key: int) -> Rule:
    """The rule of a ScoreSpec whose tensors lie on the device of the launch."""
    hiding = ("key_padding", "mask", "bias", "key_bias", "row_bias", "bias_by_distance")
    left, right = score.around or (None, None)
    scale, softcap = score.scale * LOG2E.value, None
    row_bias, group = (None, None) if score.row_bias is None else row_bias_groups(score)
    if score.softcap is not None:
        scale, softcap = score.scale / score.softcap, score.softcap * LOG2E.value
    return Rule(
        n_query=n_query,
        n_key=n_key,
        offset=n_key - n_query if score.causal else 0,
        scale=float(scale),
        causal=1 if score.causal else None,
        window=score.window,
        left=left,
        right=right,
        chunk=score.chunk,
        keep_first=score.keep_first or None,
        first=None if score.key_padding is None else first_real_key(score, batch, score.key_padding.device).int(),
        softcap=softcap,
        by_distance=cells(score.bias_by_distance, "hk"),
        inverse_temperature=None if score.temperature is None else (1.0 / score.temperature.float()).contiguous(),
        key_bias=cells(score.key_bias, "bhk"),
        row_bias=cells(row_bias, "bhrk"),  # its last axis: groups of keys
        row_bias_keys=cells(group, "k"),
        bias=cells(score.bias, "bhrk"),
        key_padding=cells(score.key_padding, "bk"),
        mask=cells(score.mask, "bhrk"),
        sink=None if score.sink is None else score.sink.float().contiguous(),
        hides=1 if any(getattr(score, name) is not None for name in hiding) else None,
    )


def cells(tensor: Tensor | None, axes: str) -> Cells | None:
    """`axes` names the axes of the tensor in order: b, h, r, k."""
    if tensor is None:
        return None
    if tensor.dtype == torch.bool:
        tensor = tensor.view(torch.uint8)
    elif tensor.dtype == torch.float64:
        tensor = tensor.float()
    strides = {axis: 0 if tensor.shape[n] == 1 else tensor.stride(n) for n, axis in enumerate(axes)}
    return Cells(tensor, *(strides.get(axis, 0) for axis in "bhrk"))


@triton.jit
def load_cells(field, b, h, i, j, inside):
    """Values of a tensor of the rule at rows i and keys j; 0 outside."""
    start = field.pointer + b.to(tl.int64) * field.batch + h.to(tl.int64) * field.head
    return tl.load(start + i.to(tl.int64) * field.row + j.to(tl.int64) * field.key, mask=inside, other=0)


@triton.jit
def load_by_distance(i, j, h, inside, rule):
    """Bias by distance: index (row - key) + Nk - 1 with row = 0 .. Nq - 1."""
    return load_cells(rule.by_distance, h, h, i, i - j + rule.n_key - 1, inside).to(tl.float32)


@triton.jit
def load_row_bias(b, h, i, j, inside, rule):
    """Bias of row i on the group that key j belongs to; 0 where it belongs to none."""
    group = load_cells(rule.row_bias_keys, b, h, i * 0, j, inside)
    return load_cells(rule.row_bias, b, h, i, group, inside & (group >= 0)).to(tl.float32)


@triton.jit
def first_key(b, rule):
    """The first real key of sample b."""
    if rule.first is not None:
        return tl.load(rule.first + b)
    return b * 0


@triton.jit
def tanh(x):
    """Without cancellation at either end: the exponential never exceeds 1."""
    shrink = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - shrink) / (1.0 + shrink)
    return tl.where(x < 0, -size, size)


@triton.jit
def scores(product, b, h, i, j, rule):
    """Scores in units of log 2 from the products q.k, hidden cells left as they come. Never -inf."""
    s = product * rule.scale
    if rule.softcap is not None:
        s = tanh(s) * rule.softcap
    inside = (i < rule.n_query) & (j < rule.n_key)
    if rule.by_distance is not None:
        s += load_by_distance(i, j, h, inside, rule) * LOG2E
    if rule.key_bias is not None:
        s += load_cells(rule.key_bias, b, h, i * 0, j, inside).to(tl.float32) * LOG2E
    if rule.row_bias is not None:
        s += load_row_bias(b, h, i, j, inside, rule) * LOG2E
    if rule.bias is not None:
        s += load_cells(rule.bias, b, h, i, j, inside).to(tl.float32) * LOG2E
    if rule.inverse_temperature is not None:
        s = tl.maximum(s, FLOOR) * tl.load(rule.inverse_temperature + h)
    # The floor also keeps the compiler from fusing the product above with the subtraction of the row's maximum, which
    # would leave the maximum itself, rounded, a little off 0.
    return tl.maximum(s, FLOOR)


@triton.jit
def visible(b, h, i, j, rule):
    """Whether row i may see key j: inside the map, near enough, and hidden by no padding, mask or bias of -inf."""
    inside = (i >= 0) & (i < rule.n_query) & (j >= 0) & (j < rule.n_key)
    first = first_key(b, rule)
    position = i + rule.offset
    seen = inside
    if rule.window is not None:
        seen = seen & (position - j < rule.window)
    if rule.left is not None:
        seen = seen & (position - j <= rule.left) & (j - position <= rule.right)
    if rule.chunk is not None:
        forward = (first // rule.chunk + 1) * rule.chunk - first  # keeps the quotients at or above 0
        seen = seen & ((position + forward) // rule.chunk == (j + forward) // rule.chunk)
    if rule.keep_first is not None:
        seen = seen | (inside & (j - first < rule.keep_first))
    if rule.causal is not None:
        seen = seen & (j <= position)
    if rule.key_padding is not None:
        seen = seen & (load_cells(rule.key_padding, b, h, i * 0, j, inside) != 0)
    if rule.mask is not None:
        seen = seen & (load_cells(rule.mask, b, h, i, j, inside) != 0)
    if rule.by_distance is not None:
        seen = seen & (load_by_distance(i, j, h, inside, rule) != float("-inf"))
    if rule.key_bias is not None:
        seen = seen & (load_cells(rule.key_bias, b, h, i * 0, j, inside).to(tl.float32) != float("-inf"))
    if rule.row_bias is not None:
        seen = seen & (load_row_bias(b, h, i, j, inside, rule) != float("-inf"))
    if rule.bias is not None:
        seen = seen & (load_cells(rule.bias, b, h, i, j, inside).to(tl.float32) != float("-inf"))
    return seen

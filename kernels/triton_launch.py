"""Launching: operands, the table of block sizes with its reasons, and how every kernel loads its tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

LEAST_FEATURES, MOST_FEATURES = 16, 256  # tl.dot wants at least 16 along the summed axis
LARGEST_STRIDE = 1 << 23  # offsets inside a tile are 32-bit: 256 rows of it stay below 2^31


class Operand(NamedTuple):
    """A tensor [B, heads, rows, features] with its strides: strided and expanded inputs are read as they lie."""

    pointer: Any
    batch: int
    head: int
    row: int
    feature: int


@dataclass(frozen=True)
class Blocks:
    """Size of a tile, warps that share it, depth of the load pipeline."""

    rows: int
    keys: int
    warps: int
    stages: int


# Families of devices by what bounds a tile. "wide": 227 KB of shared memory (sm_90, sm_100). "narrow": every other
# NVIDIA device, kept under the 99 KB of consumer cards. "cdna": AMD, 64 KB, 64 threads to a warp.
# Columns: head size padded to 32, 64, 128, 256. The largest tiles that spill nothing in benchmarks/compile_report.py
# with the default request: a larger tile reloads K and V (or Q) less often, and needs more registers and shared memory.
#
# rows: accumulator [rows, Dv] + tile of scores + tile of weights in registers, K and V streamed. 128 rows so that a K
#   and V block serves many of them; 8 warps because 4 spill over 1,000 bytes at D = 128.
# rows+tokens: two comparisons more per cell keep twice as many numbers alive: half the keys.
# keys: an accumulator by distance as large as the square tile [keys, keys], Q and K both streamed: the larger the
#   square, the less is loaded. Its rows are taken in parts, which keeps the scores of only one part in registers.
# float32 is multiplied in full precision, without matrix units: operands pass through registers, tiles are small.
# whole_rows, moments and pairs touch few cells or are rarely asked for: one modest tile for all.
# Each entry: rows, keys, warps, stages.
TABLE = {
    ("wide", 2, "rows"): ((128, 128, 8, 2), (128, 128, 8, 2), (128, 64, 8, 2), (64, 32, 8, 2)),
    ("wide", 2, "rows+tokens"): ((128, 64, 8, 2), (128, 32, 8, 2), (128, 32, 8, 2), (64, 32, 8, 2)),
    ("wide", 2, "keys"): ((64, 128, 8, 2), (64, 128, 8, 2), (64, 128, 8, 2), (64, 64, 4, 2)),
    ("narrow", 2, "rows"): ((128, 128, 8, 2), (128, 64, 8, 2), (64, 64, 8, 2), (32, 32, 8, 1)),
    ("narrow", 2, "rows+tokens"): ((128, 32, 8, 2), (128, 32, 8, 2), (128, 32, 8, 2), (32, 32, 8, 1)),
    ("narrow", 2, "keys"): ((64, 64, 4, 2), (64, 64, 4, 2), (64, 64, 4, 2), (64, 64, 4, 2)),
    ("cdna", 2, "rows"): ((128, 64, 8, 2), (128, 64, 8, 2), (128, 32, 8, 2), (64, 32, 4, 1)),
    ("cdna", 2, "rows+tokens"): ((64, 64, 4, 2), (128, 32, 8, 2), (128, 32, 8, 2), (64, 32, 4, 1)),
    ("cdna", 2, "keys"): ((128, 128, 8, 2), (128, 128, 8, 2), (64, 64, 4, 2), (64, 64, 4, 1)),
    ("wide", 4, "rows"): ((64, 64, 8, 2), (64, 32, 8, 2), (64, 32, 8, 2), (32, 32, 8, 1)),
    ("wide", 4, "keys"): ((64, 64, 8, 2), (32, 32, 4, 2), (32, 32, 8, 1), (32, 32, 8, 1)),
    ("narrow", 4, "rows"): ((64, 64, 8, 2), (32, 32, 4, 2), (32, 32, 8, 1), (32, 32, 8, 1)),
    ("narrow", 4, "keys"): ((64, 64, 8, 2), (32, 32, 4, 1), (32, 32, 8, 1), (32, 32, 8, 1)),
    ("cdna", 4, "rows"): ((64, 64, 8, 2), (64, 32, 8, 2), (64, 32, 8, 2), (32, 16, 8, 1)),
    ("cdna", 4, "keys"): ((64, 64, 8, 2), (64, 64, 8, 2), (32, 32, 8, 1), (32, 32, 8, 1)),
}  # fmt: skip
MODEST = {2: Blocks(64, 64, 8, 1), 4: Blocks(32, 32, 8, 1)}
PAIRS = {2: Blocks(32, 32, 4, 1), 4: Blocks(16, 16, 8, 1)}  # three gathered tiles of keys at once
# In the interpreter: several tiles already at 65 tokens, and few enough to interpret in seconds.
INTERPRETED, INTERPRETED_KEYS = Blocks(32, 32, 1, 1), Blocks(16, 32, 1, 1)


def blocks_for(kernel: str, query: Tensor, columns: int = 0) -> Blocks:
    """The choice of the table for a kernel, the query's type and head size, and the columns of the value."""
    if interpreted():
        return INTERPRETED_KEYS if kernel == "keys" else INTERPRETED
    family, size = device_family(), query.element_size()
    if kernel == "pairs":
        return PAIRS[size]
    plain = kernel.removesuffix("+tokens")
    choices = TABLE.get((family, size, kernel)) or TABLE.get((family, size, plain))
    if choices is None:
        return MODEST[size]
    features = max(32, padded(query.shape[-1]), padded(columns))
    return Blocks(*choices[features.bit_length() - 6])


def device_family() -> str:
    target = triton.runtime.driver.active.get_current_target()
    if target.backend == "hip":
        return "cdna"
    return "wide" if target.arch in (90, 100, 103) else "narrow"


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, blocks: Blocks, **constants: Any) -> None:
    """Run a kernel with a choice of the table."""
    kernel[grid](*arguments, **constants, num_warps=blocks.warps, num_stages=blocks.stages)


def operand(tensor: Tensor) -> Operand:
    """Heads that share their data, as expanded tensors do, keep their stride of 0. Only rows or features that lie
    millions of numbers apart are copied together."""
    if max(tensor.stride()[2:]) > LARGEST_STRIDE:
        tensor = tensor.contiguous()
    return Operand(tensor, *tensor.stride())


def padded(features: int) -> int:
    """Head size in the tile: the next power of two, at least 16."""
    return max(LEAST_FEATURES, triton.next_power_of_2(features))


def interpreted() -> bool:
    """Whether Triton runs its kernels in its interpreter. Decided when triton is first imported."""
    return triton.knobs.runtime.interpret


@triton.jit
def load_tile(
    source, b, h, start, local, features, rows, EDGE: tl.constexpr, PADDED: tl.constexpr, FEATURES: tl.constexpr
):
    """Rows start + local of one head: [len(local), PADDED], zero outside. 64-bit up to the start of the tile."""
    first = source.pointer + b.to(tl.int64) * source.batch + h.to(tl.int64) * source.head
    first += tl.cast(start, tl.int64) * source.row
    where = first + local[:, None] * source.row + features[None, :] * source.feature
    if EDGE and FEATURES < PADDED:
        inside = (start + local < rows)[:, None] & (features < FEATURES)[None, :]
        tile = tl.load(where, mask=inside, other=0.0)
    elif EDGE:
        tile = tl.load(where, mask=(start + local < rows)[:, None], other=0.0)
    elif FEATURES < PADDED:
        tile = tl.load(where, mask=(features < FEATURES)[None, :], other=0.0)
    else:
        tile = tl.load(where)
    return tile

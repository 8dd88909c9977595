"""Launching: operands, the table of block sizes with its reasons, and how every kernel loads its tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

LEAST_FEATURES = 16  # tl.dot wants at least 16 along the summed axis
LOG2E = tl.constexpr(1.4426950408889634)
LN2 = 0.6931471805599453


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


# Pass 1 holds the output accumulator, a tile of scores and a tile of weights in registers and streams K and V.
# Pass 2 holds an accumulator as large as its tile of scores (the sums by distance) and streams both Q and K, so it
# wants square tiles as large as registers allow. Keys: bytes per number, head size padded to a power of two.
INTERPRETED = Blocks(32, 32, 1, 1)  # several tiles already at 65 tokens, and few enough to interpret in seconds


def blocks_for(kernel: str, query: Tensor, columns: int) -> Blocks:
    if interpreted():
        return INTERPRETED
    return Blocks(128, 64, 8, 2)


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, blocks: Blocks, **constants: Any) -> None:
    """Run a kernel with a choice of the table."""
    kernel[grid](*arguments, **constants, num_warps=blocks.warps, num_stages=blocks.stages)


def operand(tensor: Tensor) -> Operand:
    """Heads that share their data, as expanded tensors do, keep their stride of 0."""
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

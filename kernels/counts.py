"""How many cells are visible: per row, per key, per distance, per block of the pooled map.

This needs no weight. Where spans say everything it is O(N x P); where a mask is read cell by cell it is one pass over
the mask, in strips, for one head where all heads see alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from kernels.measures import MeasureRequest, distance_index, pool_edges
from kernels.score import ScoreSpec
from kernels.threads import numba_is_here
from kernels.tiles import Spans, visible_cells

CELLS_AT_ONCE = 1 << 24


@dataclass(frozen=True, eq=False)
class Counts:
    """int64; the head axis is 1 where all heads see alike. Padded rows count nothing."""

    rows: Tensor  # [B, H or 1, Nq] keys that the row sees
    keys: Tensor | None  # [B, H or 1, Nk] rows that see the key
    distances: Tensor | None  # [B, H or 1, Dist]
    blocks: Tensor | None  # [B, H or 1, Pq, Pk]


def count_cells(score: ScoreSpec, spans: Spans, request: MeasureRequest, heads: int) -> Counts:
    """Counts of visible cells, as far as the request needs them, on the device of `spans`."""
    with_distances = request.distances or request.scores
    if spans.masked:
        return count_masked(score, spans, request, heads, with_distances)
    low, high = spans.low, torch.where(spans.real, spans.high, spans.low)  # a padded row sees nothing here
    return Counts(
        (high - low)[:, None],
        covered(low, high, spans.n_key)[:, None] if request.keys else None,
        count_distances(score, spans, low, high)[:, None] if with_distances else None,
        count_blocks(low, high, spans.n_key, request.pooled)[:, None] if request.pooled is not None else None,
    )


def covered(low: Tensor, high: Tensor, length: int) -> Tensor:
    """How many of the runs low <= x < high hold each x: [B, R] -> [B, length]."""
    batch = low.shape[0]
    change = torch.zeros(batch, length + 1, dtype=torch.int64, device=low.device)
    one = torch.ones_like(low)
    change.scatter_add_(1, low, one).scatter_add_(1, high, -one)
    return change.cumsum(-1)[:, :length]


def count_distances(score: ScoreSpec, spans: Spans, low: Tensor, high: Tensor) -> Tensor:
    """Cells at each distance: the keys of a row's run lie at a run of distances."""
    length, zero = distance_index(score.causal, low.shape[1], spans.n_key)
    nearest, farthest = spans.position - (high - 1) + zero, spans.position - low + zero + 1
    empty = high <= low
    return covered(nearest.masked_fill(empty, 0), farthest.masked_fill(empty, 0), length)


def count_blocks(low: Tensor, high: Tensor, n_key: int, side: int, key_side: int | None = None) -> Tensor:
    """Cells of each block of the pooled map: [B, Pq, Pk]. key_side: the side along the keys, where it is another."""
    row_edges, key_edges = pool_edges(low.shape[1], side), pool_edges(n_key, side if key_side is None else key_side)
    if low.device.type == "cpu" and numba_is_here():
        from kernels.loops_columns import block_counts

        counts = torch.zeros(low.shape[0], len(row_edges) - 1, len(key_edges) - 1, dtype=torch.int64)
        for own, *run in zip(counts, low.contiguous(), high.contiguous(), strict=True):
            block_counts(*(part.numpy() for part in (*run, row_edges, key_edges, own)))
        return counts
    row_edges, key_edges = row_edges.to(low.device), key_edges.to(low.device)
    before = (torch.minimum(high[..., None], key_edges) - low[..., None]).clamp(
        min=0
    )  # of a row's keys, left of an edge
    total = torch.nn.functional.pad(before.cumsum(1), (0, 0, 1, 0))[:, row_edges]  # [B, Pq + 1, Pk + 1]
    return total.diff(dim=1).diff(dim=2)


def count_masked(score: ScoreSpec, spans: Spans, request: MeasureRequest, heads: int, with_distances: bool) -> Counts:
    """The same by looking at every cell, strip by strip."""
    batch, n_query = spans.low.shape
    n_key, device = spans.n_key, spans.low.device
    everything = (slice(0, batch), slice(0, heads))
    probe = visible_cells(score, spans, *everything, slice(0, 1), slice(0, 1), biases=True)
    shape = probe.shape[:2]
    rows = torch.zeros(*shape, n_query, dtype=torch.int64, device=device)
    keys = torch.zeros(*shape, n_key, dtype=torch.int64, device=device)
    length, zero = distance_index(score.causal, n_query, n_key)
    distances = torch.zeros(*shape, length, dtype=torch.int64, device=device) if with_distances else None
    blocks, row_edges, key_edges = None, [0, n_query], None
    if request.pooled is not None:
        row_edges = pool_edges(n_query, request.pooled).tolist()
        key_edges = pool_edges(n_key, request.pooled).to(device)
        blocks = torch.zeros(*shape, len(row_edges) - 1, len(key_edges) - 1, dtype=torch.int64, device=device)
    step = max(1, CELLS_AT_ONCE // (shape[0] * shape[1] * n_key))
    for p, (top, bottom) in enumerate(pairwise(row_edges)):
        for start in range(top, bottom, step):
            strip = slice(start, min(start + step, bottom))
            seen = visible_cells(score, spans, *everything, strip, slice(0, n_key), biases=True)
            seen = seen & spans.real[:, None, strip, None]
            rows[..., strip] = seen.sum(-1)
            per_key = seen.sum(-2)
            keys += per_key
            if blocks is not None:
                running = torch.nn.functional.pad(per_key.cumsum(-1), (1, 0))
                blocks[:, :, p] += running[..., key_edges].diff(dim=-1)
            if distances is not None:
                add_diagonals(distances, seen.to(torch.int64), length - 1 - zero - int(spans.position[start]))
    return Counts(rows, keys, None if distances is None else distances.flip(-1), blocks)


def add_diagonals(sums: Tensor, values: Tensor, start: int) -> None:
    """Add a rectangle of cells to the sums by distance, in place.

    sums [..., Dist] run from the farthest key to the nearest, so that both rise together; values [..., R, C]; `start`
    is the place of row 0, column 0, and each row lies one place before the row above it. Cells that would fall outside
    the sums must hold 0.
    """
    n_rows, n_columns = values.shape[-2:]
    width = n_columns + n_rows - 1
    # with the rows flipped, cells of one distance lie on one anti-diagonal; a row longer, row r moves r to the right
    skewed = torch.nn.functional.pad(values.flip(-2), (0, n_rows)).flatten(-2)[..., : n_rows * width]
    diagonals = skewed.unflatten(-1, (n_rows, width)).sum(-2)
    start -= n_rows - 1
    left, right = max(start, 0), min(start + width, sums.shape[-1])
    if left < right:
        sums[..., left:right] += diagonals[..., left - start : right - start]

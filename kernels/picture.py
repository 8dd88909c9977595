"""Pictures of a window by compiled loops on the CPU: where spans say all that is visible, and no score is huge.

Strips of rows of the query heads that share a key head: product with the keys, then one loop that turns scores into
weights and adds them to the blocks of the picture. What the spans cannot say is drawn by kernels/window.py itself.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from kernels.counts import count_blocks
from kernels.loops_rows import picture
from kernels.measures import pool_edges
from kernels.score import ScoreSpec
from kernels.threads import run_all
from kernels.tiles import Spans, finish_scores

STRIP_CELLS = 1 << 18  # a core's cache holds so many scores


def draw(
    query: Tensor,
    key: Tensor,
    score: ScoreSpec,
    spans: Spans,
    lse: Tensor,
    rows: slice,
    columns: slice,
    sizes: tuple[int, int],
    mean: bool,
) -> Tensor:
    """The picture of kernels/window.pooled: float32 [B, H, P, P']. sizes: most blocks of rows and of keys. Checked."""
    batch, heads, key_heads = query.shape[0], query.shape[1], key.shape[1]
    n_rows, n_columns, group = rows.stop - rows.start, columns.stop - columns.start, heads // key_heads
    low = (spans.low[:, rows] - columns.start).clamp(0, n_columns)
    high = torch.where(spans.real[:, rows], spans.high[:, rows] - columns.start, 0)
    high = torch.maximum(high.clamp(0, n_columns), low)
    count = count_blocks(low, high, n_columns, *sizes)[:, None]
    edges = pool_edges(n_rows, sizes[0]).numpy(), pool_edges(n_columns, sizes[1]).numpy()
    values = torch.zeros(batch, heads, *count.shape[2:], dtype=torch.float32)

    def strip(sample: int, key_head: int, first: int, last: int) -> None:
        """The rows first .. last - 1 of the window, which are whole blocks of the picture."""
        left, right = int(low[sample, first:last].min()), int(high[sample, first:last].max())
        own = slice(key_head * group, (key_head + 1) * group)
        part, keys = key[sample, key_head].float(), slice(columns.start + left, columns.start + right)
        step = max(1, STRIP_CELLS // (group * max(right - left, 1)))
        scratch = torch.empty(max(right - left, 0), dtype=torch.float32).numpy()
        buffer = torch.empty(group * min(step, last - first) * max(right - left, 0), dtype=torch.float32)
        for start in range(first, last, step) if right > left else ():
            inside = slice(start, min(start + step, last))
            place = slice(rows.start + inside.start, rows.start + inside.stop)
            left_side = query[sample, own, place].float() * score.scale  # [g, R, D]
            shape = (*left_side.shape[:2], right - left)
            scores = buffer[: shape[0] * shape[1] * shape[2]].view(shape)
            torch.mm(left_side.flatten(0, 1), part[keys].mT, out=scores.view(-1, shape[2]))
            finish_scores(scores, score, spans, sample, own, place, keys)
            picture(
                *(scores.numpy(), (low[sample, inside] - left).numpy(), (high[sample, inside] - left).numpy()),
                *(lse[sample, own, place].float().numpy(), inside.start, left, *edges, mean),
                *(values[sample, own].numpy(), scratch),
            )

    blocks = [*edges[0][:: max(1, -(-len(edges[0]) // 8))].tolist(), n_rows]  # eighths of the rows, whole blocks each
    runs = [(first, last) for first, last in pairwise(blocks) if last > first]
    work = [(sample, k, *run) for sample in range(batch) for k in range(key_heads) for run in runs]
    run_all([lambda item=item: strip(*item) for item in work], parallel=n_rows * n_columns * heads > 1 << 16)
    return values / count if mean else values.masked_fill_(count == 0, torch.nan)

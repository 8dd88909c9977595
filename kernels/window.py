"""Any window of a map, exactly, from Q, K, the log-sum-exp of each row and the rule: exp(score - lse).

Queries, keys and lse may also be the decoded ones of a stored analysis. The cost is that of the window, never that of
the map, but for rows of huge scores (|lse| > 1,000), whose lse is summed again in float64 over all their keys: there a
rounding of the lse would change every weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from kernels.checks import check_query_and_key, check_score
from kernels.measures import pool_edges
from kernels.score import ScoreSpec
from kernels.threads import numba_is_here
from kernels.tiles import FLOAT64_FROM, HIDDEN, Spans, finish_scores, spans_of, visible_cells

ROWS_AT_ONCE = 256


@torch.no_grad()
def weights(query: Tensor, key: Tensor, score: ScoreSpec, lse: Tensor, rows: slice, columns: slice) -> Tensor:
    """Exact weights of a window: float32 [B, H, rows, columns], 0 where invisible (see `visible`).

    query [B, H, Nq, D], key [B, Hk, Nk, D], lse [B, H, Nq] of all rows. Raises ValueError for shapes that do not fit
    and windows outside the map.
    """
    rows, columns, spans = _check(query, key, score, lse, rows, columns)
    return _weights(query, key, score, spans, lse, rows, columns)


@torch.no_grad()
def scores(query: Tensor, key: Tensor, score: ScoreSpec, rows: slice, columns: slice) -> Tensor:
    """What the softmax is taken of, in a window: float32 [B, H, rows, columns], -inf where invisible.

    A learned sink is no key: its logit is score.sink.
    """
    rows, columns, spans = _check(query, key, score, query[..., 0], rows, columns)
    samples = [
        [
            _scores(query, key, score, spans, sample, key_head, rows, columns, torch.float32)
            for key_head in range(key.shape[1])
        ]
        for sample in range(query.shape[0])
    ]
    found = torch.stack([torch.cat(heads) for heads in samples])
    seen = visible_cells(score, spans, slice(0, None), slice(0, None), rows, columns, biases=False)
    return found.masked_fill_(~(seen & spans.real[:, None, rows, None]), HIDDEN)


@torch.no_grad()
def visible(
    score: ScoreSpec, n_query: int, n_key: int, rows: slice, columns: slice, *, spans: Spans | None = None
) -> Tensor:
    """Which cells of a window are visible: bool [B or 1, H or 1, rows, columns]. Padded rows see nothing."""
    rows, columns = _window(rows, n_query, "rows"), _window(columns, n_key, "columns")
    batch = _batch_of(score)
    spans = spans_of(score, batch, n_query, n_key).to(_device_of(score)) if spans is None else spans
    seen = visible_cells(score, spans, slice(0, None), slice(0, None), rows, columns, biases=True)
    return seen & spans.real[:, None, rows, None]


@torch.no_grad()
def pooled(
    query: Tensor, key: Tensor, score: ScoreSpec, lse: Tensor, rows: slice, columns: slice, size: int, how: str = "mean"
) -> Tensor:
    """A window as a picture: float32 [B, H, P, P'], P = min(size, rows), P' = min(size, columns).

    Each value is the exact mean or maximum ("mean", "max") over the visible cells of its block, NaN where it has none;
    edges are floor(p * n / P) from the window's first row and column. Memory is that of some rows of the window.
    """
    if how not in ("mean", "max"):
        raise ValueError(f'how: expected "mean" or "max", got {how!r}.')
    if size < 1:
        raise ValueError(f"size: expected 1 or more, got {size}.")
    rows, columns, spans = _check(query, key, score, lse, rows, columns)
    if _by_loops(query, spans, lse, rows):
        from kernels.picture import draw

        return draw(query, key, score, spans, lse, rows, columns, (size, size), how == "mean")
    row_edges = pool_edges(rows.stop - rows.start, size) + rows.start
    key_edges = pool_edges(columns.stop - columns.start, size)
    row_block, key_block = (_block_of(edges, query.device) for edges in (row_edges, key_edges))
    shape = (*query.shape[:2], len(row_edges) - 1, len(key_edges) - 1)
    picture = torch.empty(shape, dtype=torch.float32, device=query.device)
    for first, last in _bands(row_edges.tolist()):
        part = slice(int(row_edges[first]), int(row_edges[last]))
        band = _weights(query, key, score, spans, lse, part, columns)
        seen = visible_cells(score, spans, slice(0, None), slice(0, None), part, columns, biases=True)
        seen = seen & spans.real[:, None, part, None]
        inside = row_block[part.start - rows.start : part.stop - rows.start] - first
        reduced = [
            _by_block(_by_block(cells, key_block, shape[3], -1, reduce), inside, last - first, -2, reduce)
            for cells, reduce in ((seen.float(), "sum"), (band.double(), "sum") if how == "mean" else (band, "amax"))
        ]
        count, value = reduced
        picture[:, :, first:last] = value / count if how == "mean" else value.masked_fill(count == 0, torch.nan)
    return picture


@torch.no_grad()
def sampled(
    query: Tensor,
    key: Tensor,
    score: ScoreSpec,
    lse: Tensor,
    rows: slice,
    columns: slice,
    size: int,
    how: str = "mean",
    *,
    most_cells: int,
) -> Tensor:
    """As `pooled`, from some rows of every block only: at most `most_cells` cells are computed, or one row per block.

    The rows of a block are spread evenly over it and read completely, so every value is the mean (or a lower bound of
    the maximum) of exact weights. NaN where no cell of these rows is visible.
    """
    if how not in ("mean", "max"):
        raise ValueError(f'how: expected "mean" or "max", got {how!r}.')
    if size < 1 or most_cells < 1:
        raise ValueError(f"size and most_cells: expected 1 or more, got {size} and {most_cells}.")
    rows, columns, spans = _check(query, key, score, lse, rows, columns)
    row_edges = pool_edges(rows.stop - rows.start, size) + rows.start
    blocks, width = len(row_edges) - 1, columns.stop - columns.start
    per_block = max(1, min(most_cells // (blocks * width), int(row_edges.diff().min())))
    picked = torch.tensor([row for edges in pairwise(row_edges.tolist()) for row in _spread(*edges, per_block)])
    by_row = (score.bias_by_distance, score.row_bias, score.bias)
    if _by_loops(query, spans, lse, rows) and all(bias is None for bias in by_row):
        from kernels.picture import draw

        every = slice(
            0, len(picked)
        )  # no rule but the spans knows a row's place: the picked rows are a map of their own
        chosen = query[:, :, picked], key, score, spans.of_rows(picked), lse[:, :, picked]
        return draw(*chosen, every, columns, (blocks, size), how == "mean")
    return _from_lines(query, key, score, spans, lse, picked.view(blocks, per_block), columns, size, how)


def _from_lines(
    query: Tensor,
    key: Tensor,
    score: ScoreSpec,
    spans: Spans,
    lse: Tensor,
    picked: Tensor,
    columns: slice,
    size: int,
    how: str,
) -> Tensor:
    """The picture from single rows, int64 [P, rows of a block]: [B, H, P, P']. For any rule."""
    key_edges = pool_edges(columns.stop - columns.start, size)
    key_block, reduce = _block_of(key_edges, query.device), "sum" if how == "mean" else "amax"
    shape = (*query.shape[:2], len(picked), len(key_edges) - 1)
    picture = torch.empty(shape, dtype=torch.float32, device=query.device)
    for block, own in enumerate(picked.tolist()):
        counts, values = [], []
        for row in own:
            line = slice(row, row + 1)
            band = _weights(query, key, score, spans, lse, line, columns)
            seen = visible_cells(score, spans, slice(0, None), slice(0, None), line, columns, biases=True)
            seen = (seen & spans.real[:, None, line, None]).expand(band.shape)
            counts.append(_by_block(seen.double(), key_block, shape[3], -1, "sum"))
            values.append(_by_block(band.double(), key_block, shape[3], -1, reduce))
        count, value = torch.cat(counts, -2).sum(-2), torch.cat(values, -2)
        value = value.sum(-2) / count if how == "mean" else value.amax(-2).masked_fill(count == 0, torch.nan)
        picture[:, :, block] = value
    return picture


def _spread(first: int, last: int, count: int) -> list[int]:
    """`count` numbers of [first, last), evenly spread, each in the middle of its share."""
    return [first + int((place + 0.5) * (last - first) / count) for place in range(count)]


def _by_loops(query: Tensor, spans: Spans, lse: Tensor, rows: slice) -> bool:
    """Whether compiled loops can draw this window: see kernels/picture.py."""
    level = lse[:, :, rows]
    plain = ((level.abs() <= FLOAT64_FROM) | (level == HIDDEN)).all()  # neither huge nor NaN
    return query.device.type == "cpu" and not spans.masked and bool(plain) and numba_is_here()


def _block_of(edges: Tensor, device: torch.device) -> Tensor:
    """The block of every row or key of a window, counted from its first one: int64 [edges[-1] - edges[0]]."""
    return torch.repeat_interleave(torch.arange(len(edges) - 1), edges.diff()).to(device)


def _bands(edges: list[int]) -> Iterator[tuple[int, int]]:
    """Runs of blocks, each of at most ROWS_AT_ONCE rows or of one block: (first, last + 1)."""
    first = 0
    while first < len(edges) - 1:
        last = first + 1
        while last < len(edges) - 1 and edges[last + 1] - edges[first] <= ROWS_AT_ONCE:
            last += 1
        yield first, last
        first = last


def _by_block(values: Tensor, block: Tensor, blocks: int, dim: int, reduce: str) -> Tensor:
    """Sum or largest value of each block along one axis. What is no number stays in its own block."""
    shape = list(values.shape)
    shape[dim] = blocks
    index = block[:, None].expand(values.shape) if dim == -2 else block.expand(values.shape)
    return values.new_zeros(shape).scatter_reduce_(dim, index, values, reduce, include_self=False)


def _weights(
    query: Tensor, key: Tensor, score: ScoreSpec, spans: Spans, lse: Tensor, rows: slice, columns: slice
) -> Tensor:
    """The window of checked input, sample by sample and key head by key head."""
    batch, heads, key_heads = query.shape[0], query.shape[1], key.shape[1]
    group = heads // key_heads
    window = torch.empty(
        batch, heads, rows.stop - rows.start, columns.stop - columns.start, dtype=torch.float32, device=query.device
    )
    for sample in range(batch):
        for key_head in range(key_heads):
            own = slice(key_head * group, (key_head + 1) * group)
            place = window[sample, own]
            level = lse[sample, own, rows].to(query.device)
            level = torch.where(level == HIDDEN, 0.0, level)  # a row that sees nothing: exp(-inf) is 0
            huge = ((level.abs() > FLOAT64_FROM) & (level.abs() < torch.inf)).any(0)
            if not bool(huge.all()):
                scores = _scores(query, key, score, spans, sample, key_head, rows, columns, torch.float32)
                torch.exp(scores.sub_(level[..., None]), out=place)
            for row in torch.nonzero(huge).flatten().tolist():
                line = slice(rows.start + row, rows.start + row + 1)
                exact = _scores(query, key, score, spans, sample, key_head, line, slice(0, key.shape[2]), torch.float64)
                if score.sink is not None:
                    sink = score.sink[own].double()[:, None, None].expand(-1, exact.shape[1], 1)
                    exact = torch.cat([exact, sink], -1)
                place[:, row] = torch.softmax(exact, -1)[:, 0, columns].float()
    seen = visible_cells(score, spans, slice(0, None), slice(0, None), rows, columns, biases=False)
    return window.masked_fill_(~(seen & spans.real[:, None, rows, None]), 0.0)


def _scores(
    query: Tensor,
    key: Tensor,
    score: ScoreSpec,
    spans: Spans,
    sample: int,
    key_head: int,
    rows: slice,
    columns: slice,
    dtype: torch.dtype,
) -> Tensor:
    """Scores of one key head's part of a window, hidden cells -inf: [g, rows, columns]."""
    group = query.shape[1] // key.shape[1]
    own = slice(key_head * group, (key_head + 1) * group)
    left = query[sample, own, rows].to(dtype) * score.scale
    products = left @ key[sample, key_head, columns].to(dtype).mT
    scores = finish_scores(products, score, spans, sample, own, rows, columns)
    keys = torch.arange(columns.start, columns.stop, device=scores.device)
    low, high = spans.low[sample, rows, None], spans.high[sample, rows, None]
    return scores.masked_fill_((keys < low) | (keys >= high), HIDDEN)


def _check(
    query: Tensor, key: Tensor, score: ScoreSpec, lse: Tensor, rows: slice, columns: slice
) -> tuple[slice, slice, Spans]:
    check_query_and_key(query, key)
    batch, heads, n_query, _ = query.shape
    n_key = key.shape[2]
    check_score(score, batch, heads, n_query, n_key, query.device)
    if lse.shape != query.shape[:3]:
        raise ValueError(f"lse: expected {list(query.shape[:3])}, that of all rows, got {list(lse.shape)}.")
    spans = spans_of(score, batch, n_query, n_key).to(query.device)
    return _window(rows, n_query, "rows"), _window(columns, n_key, "columns"), spans


def _window(window: slice, length: int, name: str) -> slice:
    """The slice with both ends said. Refused: steps, negative numbers, empty windows and windows outside the map."""
    start, stop = window.start or 0, length if window.stop is None else window.stop
    if window.step not in (None, 1) or not 0 <= start < stop <= length:
        raise ValueError(f"{name}: expected start < stop within 0 .. {length} and no step, got {window}.")
    return slice(start, stop)


def _batch_of(score: ScoreSpec) -> int:
    """Number of samples that the rule tells apart."""
    fields = (score.key_padding, score.row_padding, score.mask, score.key_bias, score.row_bias, score.bias)
    return max((tensor.shape[0] for tensor in fields if tensor is not None), default=1)


def _device_of(score: ScoreSpec) -> torch.device:
    return next((value.device for value in vars(score).values() if isinstance(value, Tensor)), torch.device("cpu"))

"""Attention that measures itself in strips of rows: any device, O(N x strip) memory, float32 sums.

A strip holds some rows of the query heads that share a key head, over the keys these rows may see:
product with the keys -> scores -> one sweep that turns them into exponentials and adds to every sum -> product with
the values. Key tiles outside causality or window are never touched. Strips whose scores are beyond 1,000 are computed
in float64 up to the difference from the row's largest score.

On the CPU one thread works on one strip, so that nothing waits within it (kernels/threads.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from kernels import sweep_torch
from kernels.counts import Counts, count_cells
from kernels.measures import Attended, MeasureRequest
from kernels.score import ScoreSpec
from kernels.strip import Strip
from kernels.sums import Sums
from kernels.sweep_torch import add_coverage
from kernels.threads import run_all, threads
from kernels.tiles import FLOAT64_FROM, HIDDEN, Spans, finish_scores, spans_of

STRIP_ROWS = 192  # rows of all heads of a strip together: enough for the matrix products
STRIP_BYTES = {"cpu": 3 << 20, "other": 64 << 20}  # of the scores of one strip; a core's cache holds about this much


@dataclass(frozen=True)
class Piece:
    """A run of rows of one sample and key head: the unit that one thread works on."""

    sample: int
    key_head: int
    part: int
    strips: tuple[tuple[slice, slice], ...]  # rows, columns


def attend_tiled(query: Tensor, key: Tensor, value: Tensor, score: ScoreSpec, request: MeasureRequest) -> Attended:
    """Output, lse and measures. Shapes as in kernels/api.py; everything is float32 but the output."""
    query, key, value = query.detach(), key.detach(), value.detach()
    batch, heads, n_query, _ = query.shape
    key_heads, n_key = key.shape[1:3]
    spans = spans_of(score, batch, n_query, n_key)
    pieces = list(cut(spans, heads // key_heads, key_heads, query.device.type))
    spans = spans.to(query.device)
    counts = count_cells(score, spans, request, heads)
    sums = Sums(query, value, score, spans, request, 1 + max((piece.part for piece in pieces), default=0))
    work = Work(query, key, value, score, spans, counts, sums, choose_sweep(query.device))
    run_all([lambda piece=piece: work.run(piece) for piece in pieces], parallel=query.device.type == "cpu")
    return sums.finish(counts)


def choose_sweep(device: torch.device) -> ModuleType:
    """The sweep that runs on this device."""
    return sweep_torch


def cut(spans: Spans, group: int, key_heads: int, device: str) -> Iterator[Piece]:
    """All pieces. Rows are cut so that the pieces of a sample cost about the same."""
    batch, n_query = spans.low.shape
    limit = STRIP_BYTES["cpu" if device == "cpu" else "other"] // (4 * group)
    most = max(1, STRIP_ROWS // group) if device == "cpu" else n_query
    for sample in range(batch):
        low, high = spans.low[sample], spans.high[sample]
        strips = list(cut_rows(low, high, most, limit))
        parts = min(len(strips), -(-4 * threads() // (batch * key_heads))) if device == "cpu" else 1
        cells = [(rows.stop - rows.start) * (columns.stop - columns.start) for rows, columns in strips]
        owner = assign(cells, parts)
        for key_head in range(key_heads):
            for part in range(parts):
                mine = tuple(strip for strip, whose in zip(strips, owner, strict=True) if whose == part)
                yield Piece(sample, key_head, part, mine)


def cut_rows(low: Tensor, high: Tensor, most: int, limit: int) -> Iterator[tuple[slice, slice]]:
    """Strips of at most `most` rows whose rectangle has at most `limit` cells (or one row)."""
    low, high = low.tolist(), high.tolist()
    start, n_query = 0, len(low)
    while start < n_query:
        left, right, stop = low[start], high[start], start + 1
        while stop < n_query and stop - start < most:
            if high[stop] > low[stop]:
                new_left, new_right = min(left, low[stop]), max(right, high[stop])
                if right <= left:
                    new_left, new_right = low[stop], high[stop]
                if (new_right - new_left) * (stop + 1 - start) > limit:
                    break
                left, right = new_left, new_right
            stop += 1
        yield slice(start, stop), slice(left, max(right, left))
        start = stop


def assign(cells: list[int], parts: int) -> list[int]:
    """Part of each strip: consecutive strips, about equal cells."""
    total, owner, before = max(sum(cells), 1), [], 0
    for count in cells:
        owner.append(min(parts - 1, (before + count // 2) * parts // total))
        before += count
    return owner


@dataclass(eq=False)
class Work:
    """One call of attention: everything that its pieces share."""

    query: Tensor
    key: Tensor
    value: Tensor
    score: ScoreSpec
    spans: Spans
    counts: Counts
    sums: Sums
    sweep: ModuleType  # kernels.sweep_torch, or its faster twin

    def run(self, piece: Piece) -> None:
        """Sweep over the strips of a piece, one after another."""
        group = self.query.shape[1] // self.key.shape[1]
        heads = slice(piece.key_head * group, (piece.key_head + 1) * group)
        key = self.key[piece.sample, piece.key_head].float()  # [Nk, D]
        value = self.value[piece.sample, piece.key_head].float()  # [Nk, Dv]
        size = max(((r.stop - r.start) * (c.stop - c.start) for r, c in piece.strips), default=0)
        buffer = torch.empty(group * size, dtype=torch.float32, device=key.device)
        for rows, columns in piece.strips:
            if columns.stop == columns.start:
                continue  # none of the rows sees a key: Sums starts out saying so
            strip = self.strip(piece, heads, rows, columns, key, buffer)
            divisor = self.sweep.sweep(strip, self.sums)
            self.add_sampled(strip)
            output = strip.scores.flatten(0, 1) @ value[columns]  # [g * R, Dv]
            output = output.unflatten(0, strip.scores.shape[:2]).div_(divisor[..., None])
            self.sums.output[strip.place] = output.to(self.sums.output.dtype)
            if self.sums.n_groups:
                self.add_groups(strip, divisor)

    def strip(self, piece: Piece, heads: slice, rows: slice, columns: slice, key: Tensor, buffer: Tensor) -> Strip:
        """Scores of a strip in `buffer`, and all that the sweep must know of it."""
        score, spans = self.score, self.spans
        n_rows, n_columns = rows.stop - rows.start, columns.stop - columns.start
        query = self.query[piece.sample, heads, rows].float() * score.scale  # [g, R, D]
        scores = buffer[: query.shape[0] * n_rows * n_columns].view(-1, n_columns)
        torch.mm(query.flatten(0, 1), key[columns].mT, out=scores)
        scores = scores.unflatten(0, query.shape[:2])
        finish_scores(scores, score, spans, piece.sample, heads, rows, columns)
        low, high = spans.low[piece.sample, rows] - columns.start, spans.high[piece.sample, rows] - columns.start
        largest = self.sweep.row_maxima(scores, low, high)
        base = torch.zeros(1, 1, dtype=torch.float64, device=key.device)
        if bool(((largest.abs() > FLOAT64_FROM) & (largest > HIDDEN)).any()):
            base = self.recompute(scores, piece, heads, rows, columns)
            largest = self.sweep.row_maxima(scores, low, high)
        counts = self.counts.rows[piece.sample]
        return Strip(
            piece.sample,
            heads,
            rows,
            columns,
            piece.part,
            scores,
            base,
            largest,
            low,
            high,
            (counts[heads] if counts.shape[0] > 1 else counts)[:, rows],
            spans.real[piece.sample, rows],
            int(spans.position[0]) + rows.start,
            int(spans.first[piece.sample]),
        )

    def recompute(self, scores: Tensor, piece: Piece, heads: slice, rows: slice, columns: slice) -> Tensor:
        """The scores again in float64, less the largest of each row, which is returned: float64 [g, R]."""
        query = self.query[piece.sample, heads, rows].double() * self.score.scale
        exact = query @ self.key[piece.sample, piece.key_head, columns].double().mT
        finish_scores(exact, self.score, self.spans, piece.sample, heads, rows, columns)
        low, high = self.spans.low[piece.sample, rows, None], self.spans.high[piece.sample, rows, None]
        keys = torch.arange(columns.start, columns.stop, device=exact.device)
        base = exact.masked_fill((keys < low) | (keys >= high), HIDDEN).amax(-1)
        base = torch.where(base == HIDDEN, 0.0, base)
        scores.copy_(exact - base[..., None])
        return base

    def add_sampled(self, strip: Strip) -> None:
        """Coverage of the sampled rows among the strip's."""
        start, stop = torch.searchsorted(self.sums.sampled, torch.tensor([strip.rows.start, strip.rows.stop])).tolist()
        if stop > start:
            add_coverage(strip, self.sums, slice(start, stop))

    def add_groups(self, strip: Strip, divisor: Tensor) -> None:
        """Mass of each row on each group of keys, as a product with the membership of the keys."""
        groups = self.sums.request.groups
        groups = groups[min(strip.sample, groups.shape[0] - 1), strip.columns].to(divisor.device)
        member = groups[:, None] == torch.arange(self.sums.n_groups, device=divisor.device)
        mass = (strip.scores.flatten(0, 1) @ member.float()).unflatten(0, divisor.shape) / divisor[..., None]
        none = (strip.count == 0).expand_as(divisor)[..., None]
        self.sums.groups[strip.place] = mass.masked_fill(none, torch.nan)

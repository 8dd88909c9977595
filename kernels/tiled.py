"""Attention that measures itself in strips of rows: any device, O(N x strip) memory, float32 sums.

A strip holds some rows of the query heads that share a key head, over the keys these rows may see:
product with the keys -> scores -> one sweep that turns them into exponentials and adds to every sum -> product with
the values. Key tiles outside causality or window are never touched. Strips whose scores are beyond 1,000 are computed
in float64 up to the difference from the row's largest score.

On the CPU one thread works on one strip, so that nothing waits within it (kernels/threads.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.counts import Counts, count_cells
from kernels.measures import Attended, MeasureRequest, pool_edges
from kernels.score import ScoreSpec
from kernels.strip import Section, Strip
from kernels.sums import PADDING, Sums
from kernels.sweep_torch import TorchSweep
from kernels.threads import numba_is_here, run_all, threads
from kernels.tiles import FLOAT64_FROM, HIDDEN, Spans, finish_scores, spans_of

STRIP_ROWS = 192  # rows of all heads of a strip together: enough for the matrix products
STRIP_BYTES = {"cpu": 12 << 20, "other": 64 << 20}  # of the scores of one strip: longer rows, fewer of them


@dataclass(frozen=True)
class Piece:
    """The strips that one thread works on, one after another: a run of rows of one sample and key head."""

    sample: int
    key_head: int
    part: int
    strips: tuple[tuple[slice, slice], ...]  # rows, columns


def attend_tiled(query: Tensor, key: Tensor, value: Tensor, score: ScoreSpec, request: MeasureRequest) -> Attended:
    """Output, lse and measures. Shapes as in kernels/api.py; everything is float32 but the output."""
    query, key, value = query.detach(), key.detach(), value.detach()
    batch, heads, n_query, _ = query.shape
    key_heads, n_key = key.shape[1:3]
    on_cpu = query.device.type == "cpu"
    spans = spans_of(score, batch, n_query, n_key)
    pieces = cut(spans, request, heads // key_heads, key_heads, on_cpu)
    spans = spans.to(query.device)
    counts = count_cells(score, spans, request, heads)
    sums = Sums(query, value, score, spans, request, 1 + max(piece.part for piece in pieces))
    work = Work(query, key, value, score, spans, counts, sums, choose_sweep(query.device))
    run_all([lambda piece=piece: work.run(piece) for piece in pieces], parallel=on_cpu)
    return sums.finish(counts)


def choose_sweep(device: torch.device) -> type:
    """The compiled loops on the CPU where numba is installed, tensor operations elsewhere."""
    if device.type != "cpu" or not numba_is_here():
        return TorchSweep
    from kernels.sweep import NumbaSweep

    return NumbaSweep


def cut(spans: Spans, request: MeasureRequest, group: int, key_heads: int, on_cpu: bool) -> list[Piece]:
    """All pieces. Those of a sample and key head cost about the same, and none cuts a block of the pooled map."""
    batch, n_query = spans.low.shape
    limit = STRIP_BYTES["cpu" if on_cpu else "other"] // (4 * group)
    most = min(PADDING, max(1, STRIP_ROWS // group)) if on_cpu else n_query
    edges = range(n_query + 1)
    if request.pooled is not None:
        edges = pool_edges(n_query, request.pooled).tolist()
    wanted = -(-4 * threads() // (batch * key_heads)) if on_cpu else 1
    pieces = []
    for sample in range(batch):
        low, high = spans.low[sample].numpy(), spans.high[sample].numpy()
        runs = [list(cut_rows(low, high, *run, most, limit)) for run in whole_blocks(edges, most)]
        cells = [sum((rows.stop - rows.start) * (keys.stop - keys.start) for rows, keys in run) for run in runs]
        for part, own in enumerate(share_out(runs, cells, wanted)):
            strips = tuple(strip for run in own for strip in run)
            pieces += [Piece(sample, key_head, part, strips) for key_head in range(key_heads)]
    return pieces


def whole_blocks(edges: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Runs of rows made of whole blocks: as many as make up at most `most` rows, or one block."""
    start, stop = edges[0], edges[1]
    for edge in edges[2:]:
        if edge - start > most:
            yield start, stop
            start = stop
        stop = edge
    yield start, stop


def cut_rows(
    low: np.ndarray, high: np.ndarray, start: int, end: int, most: int, limit: int
) -> Iterator[tuple[slice, slice]]:
    """Strips of at most `most` rows whose rectangle has at most `limit` cells, or one row: rows, columns."""
    while start < end:
        stop = min(start + most, end)
        while True:
            some = high[start:stop] > low[start:stop]
            left, right = 0, 0
            if some.any():
                left, right = int(low[start:stop][some].min()), int(high[start:stop][some].max())
            if stop - start == 1 or (right - left) * (stop - start) <= limit:
                break
            stop = start + max(1, min(stop - start - 1, limit // (right - left)))
        yield slice(start, stop), slice(left, right)
        start = stop


def share_out(runs: list, cells: list[int], wanted: int) -> list[list]:
    """Consecutive runs in at most `wanted` shares of about equal cells, the largest work first."""
    total, before = max(sum(cells), 1), 0
    shares: list[list] = [[] for _ in range(wanted)]
    for run, count in zip(runs, cells, strict=True):
        shares[min(wanted - 1, (before + count // 2) * wanted // total)].append(run)
        before += count
    return [share for share in shares if share]


@dataclass(eq=False, slots=True)
class Turn:
    """One strip in the hands of the two matrix products."""

    query: Tensor  # float32 [g * R, D], scaled
    key: Tensor  # float32 [D, C]
    value: Tensor  # float32 [C, Dv]
    scores: Tensor  # float32 [g, R, C], in the buffer that all strips of a piece share
    flat_scores: Tensor  # the same memory, [g * R, C]
    strip: Any  # what the sweep made ready
    output: Tensor  # [g, R, Dv] of Sums


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
    sweep: type
    buffers: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.no_base = torch.zeros(1, 1, dtype=torch.float64, device=self.query.device)

    def run(self, piece: Piece) -> None:
        """Sweep over the strips of a piece, one after another."""
        group = self.query.shape[1] // self.key.shape[1]
        heads = slice(piece.key_head * group, (piece.key_head + 1) * group)
        section = Section(piece.sample, heads, piece.part, self.sums, self.spans, self.counts)
        sweep = self.sweep(section)
        buffer = self.buffer(group * max((r.stop - r.start) * (c.stop - c.start) for r, c in piece.strips))
        for turn in list(self.turns(piece, section, sweep, buffer)):
            divisor = sweep.sweep(turn.strip, self.scores(turn, section, sweep))
            mixed = torch.mm(turn.flat_scores, turn.value)  # [g * R, Dv]
            torch.div(mixed.view(turn.output.shape), divisor[..., None], out=turn.output)
            if self.sums.n_groups:
                self.add_groups(section.strip(turn.scores, turn.strip.rows, turn.strip.columns), divisor)
        self.buffers.append(buffer)

    def buffer(self, size: int) -> Tensor:
        """Room for the scores of a strip: what an earlier piece has done with, where it is large enough."""
        try:
            used = self.buffers.pop()
        except IndexError:
            used = torch.empty(0, dtype=torch.float32, device=self.query.device)
        return used if len(used) >= size else torch.empty(size, dtype=torch.float32, device=self.query.device)

    def turns(self, piece: Piece, section: Section, sweep: TorchSweep, buffer: Tensor) -> Iterator[Turn]:
        """The strips of a piece with all that the products need. A strip whose rows see no key has no turn: Sums starts
        out saying so."""
        done = slice(piece.strips[0][0].start, piece.strips[-1][0].stop)
        query = self.query[piece.sample, section.heads, done].float() * self.score.scale  # [g, rows of the piece, D]
        key = self.key[piece.sample, piece.key_head].float()  # [Nk, D]
        value = self.value[piece.sample, piece.key_head].float()  # [Nk, Dv]
        output = self.sums.output[piece.sample, section.heads]  # [g, Nq, Dv]
        for rows, columns in piece.strips:
            if columns.stop == columns.start:
                continue
            own = query[:, rows.start - done.start : rows.stop - done.start]
            shape = (own.shape[0], own.shape[1], columns.stop - columns.start)
            scores = buffer[: shape[0] * shape[1] * shape[2]].view(shape)
            yield Turn(
                own.reshape(-1, own.shape[2]),
                key[columns].mT,
                value[columns],
                scores,
                scores.view(-1, shape[2]),
                sweep.ready(scores, rows, columns),
                output[:, rows],
            )

    def scores(self, turn: Turn, section: Section, sweep: TorchSweep) -> Tensor:
        """Fill in the scores of a strip; returns what was subtracted from them, float64 [g, R] or [1, 1]."""
        torch.mm(turn.query, turn.key, out=turn.flat_scores)
        rows, columns = turn.strip.rows, turn.strip.columns
        place = (self.score, self.spans, section.sample, section.heads, rows, columns)
        finish_scores(turn.scores, *place)
        if not sweep.maxima(turn.strip) > FLOAT64_FROM:  # NaN has nothing to gain
            return self.no_base
        query = self.query[section.sample, section.heads, rows].double() * self.score.scale
        exact = finish_scores(query @ turn.key.double(), *place)
        keys = torch.arange(columns.start, columns.stop, device=exact.device)
        outside = (keys < section.low[rows, None]) | (keys >= section.high[rows, None])
        base = exact.masked_fill(outside, HIDDEN).amax(-1)  # [g, R]
        if self.score.sink is not None:
            base = torch.maximum(base, self.score.sink[section.heads, None].double())
        base = torch.where(base == HIDDEN, 0.0, base)
        turn.scores.copy_(exact - base[..., None])
        sweep.maxima(turn.strip)
        return base

    def add_groups(self, strip: Strip, divisor: Tensor) -> None:
        """Mass of each row on each group of keys, as a product with the membership of the keys."""
        groups = self.sums.request.groups
        groups = groups[min(strip.section.sample, groups.shape[0] - 1), strip.columns].to(divisor.device)
        member = groups[:, None] == torch.arange(self.sums.n_groups, device=divisor.device)
        mass = (strip.scores.flatten(0, 1) @ member.float()).unflatten(0, divisor.shape) / divisor[..., None]
        none = (strip.count == 0).expand_as(divisor)[..., None]
        self.sums.groups[strip.place] = mass.masked_fill(none, torch.nan)

"""One strip of a map in compiled loops, on the CPU: the sums of kernels/sweep_torch.py, each cell read few times.

Between two matrix products the caches hold scores and little else, so that every Python step there costs ten times what
it costs elsewhere. All that can be made ready for the strips of a section is made ready before the first of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kernels import sweep_torch
from kernels.loops_columns import columns as add_columns
from kernels.loops_columns import distances as add_distances
from kernels.loops_extra import coverage, moments, strongest, token_masses
from kernels.loops_rows import exponentials, row_maxima
from kernels.measures import SHARES
from kernels.strip import Section
from kernels.tiles import HIDDEN


@dataclass(eq=False, slots=True)
class Ready:
    """What the loops need of one strip."""

    scores: Tensor  # [g, R, C]
    rows: slice
    columns: slice
    cells: np.ndarray  # the scores
    low: np.ndarray  # [R] spans, relative to the first column
    high: np.ndarray
    largest: np.ndarray  # [g, R], written by `maxima`
    where: np.ndarray
    inverse: np.ndarray  # [g, R], written by `sweep`
    divisor: np.ndarray
    divisor_tensor: Tensor  # the same memory
    distance_start: int
    sampled: np.ndarray | None  # [S] sampled rows, relative to the first row
    sampled_seen: np.ndarray | None  # [1 or g, S]
    coverage: np.ndarray | None  # [g, S, 5], written


class NumbaSweep:
    """The sweep over the strips of one section. The loops hold no lock, so sections run side by side."""

    def __init__(self, section: Section) -> None:
        self.section, sums = section, section.sums
        sample, heads, part = section.sample, section.heads, section.part
        self.low, self.high = section.low.contiguous().numpy(), section.high.contiguous().numpy()
        self.real, self.count = section.real.contiguous().numpy(), section.count.numpy()
        self.keys = np.arange(section.spans.n_key, dtype=np.float32)
        self.sink = np.full(heads.stop - heads.start, HIDDEN)
        if sums.score.sink is not None:
            self.sink[:] = sums.score.sink[heads].double().numpy()

        self.lse, self.rows = sums.lse[sample, heads].numpy(), sums.rows[:, sample, heads].numpy()
        self.max_key, self.negligible = sums.max_key[sample, heads].numpy(), sums.negligible[sample, heads].numpy()
        self.row_edges, self.key_edges = sums.row_edges.numpy(), sums.key_edges.numpy()
        self.by_key, self.pooled = sums.keys[part, sample, heads].numpy(), sums.pooled[sample, heads].numpy()
        self.by_distance = sums.distances[part, sample, heads].numpy()
        self.coverage, self.shares = sums.coverage[sample, heads].numpy(), np.array(SHARES)
        self.scratch = np.empty((3, section.spans.n_key), np.float32)
        request = sums.request
        self.by_columns = request.keys or request.pooled is not None
        self.named = request.tokens is not None or request.top > 0

    def ready(self, scores: Tensor, rows: slice, columns: slice) -> Ready:
        """Everything about a strip that can be said before its scores [g, R, C] are there."""
        shape, section = scores.shape[:2], self.section
        divisor = np.empty(shape, np.float32)
        which = section.sampled_among(rows)
        sampled = seen = needed = None
        if which.stop > which.start:
            sampled = np.array(section.sampled[which])
            seen, needed = self.count[:, sampled], self.coverage[:, which]
            sampled -= rows.start
        return Ready(
            *(scores, rows, columns, scores.numpy()),
            *(self.low[rows] - columns.start, self.high[rows] - columns.start),
            *(np.empty(shape, np.float32), np.empty(shape, np.int64)),
            *(np.empty(shape, np.float32), divisor, torch.from_numpy(divisor)),
            section.distance_start(rows, columns),
            *(sampled, seen, needed),
        )

    def maxima(self, strip: Ready) -> float:
        """Find the largest score of each row; returns the largest magnitude among these."""
        return row_maxima(strip.cells, strip.low, strip.high, strip.largest, strip.where)

    def sweep(self, strip: Ready, base: Tensor) -> Tensor:
        """Turn the scores of a strip into exponentials, in place, and add to all sums. `maxima` comes first.

        base float64 [g, R] or [1, 1]: what was subtracted from the scores. Returns the divisor of each row [g, R]:
        exponential / divisor = weight.
        """
        section, request = self.section, self.section.sums.request
        row, column, first = strip.rows.start, strip.columns.start, section.first_position
        levels = base.numpy()
        if request.scores:
            self.add_moments(strip, levels)
        hidden = self.hidden(strip) if self.named and section.spans.masked else None
        exponentials(
            *(strip.cells, strip.low, strip.high, self.count, self.real),
            *(strip.largest, strip.where, levels, self.sink),
            *(self.keys, row, column, first + row, section.first_key),
            *(self.lse, strip.divisor, strip.inverse, self.rows, self.max_key, self.negligible),
        )
        if self.by_columns:
            add_columns(
                *(strip.cells, strip.inverse, strip.low, strip.high, row, column),
                *(self.row_edges, self.key_edges, self.by_key, self.pooled, self.scratch),
            )
        if request.distances:
            add_distances(strip.cells, strip.inverse, strip.low, strip.high, strip.distance_start, self.by_distance)
        if strip.sampled is not None:
            coverage(
                *(strip.cells, strip.cells.view(np.int32), strip.low, strip.high, strip.sampled),
                *(strip.sampled_seen, self.shares, strip.coverage),
            )
        if hidden is not None:
            self.add_named_masked(strip, hidden)
        elif self.named:
            self.add_named(strip)
        return strip.divisor_tensor

    def hidden(self, strip: Ready) -> Tensor:
        """Cells that are hidden, inside the spans and outside: bool [g, R, C]."""
        column = np.arange(strip.cells.shape[-1])
        outside = (column < strip.low[:, None]) | (column >= strip.high[:, None])
        return (strip.scores == HIDDEN) | torch.from_numpy(outside)

    def add_moments(self, strip: Ready, levels: np.ndarray) -> None:
        section, sums = self.section, self.section.sums
        by_distance = sums.distance_scores[section.part, section.sample, section.heads].numpy()
        moments(
            *(strip.cells, strip.low, strip.high, self.real, levels, strip.rows.start, strip.distance_start),
            *(sums.scores[:, section.sample, section.heads].numpy(), by_distance),
        )

    def add_named(self, strip: Ready) -> None:
        """Token masses and strongest keys where every cell of a span is visible."""
        section, sums = self.section, self.section.sums
        sample, heads = section.sample, section.heads
        place = (strip.cells, strip.inverse, strip.low, strip.high, strip.rows.start, strip.columns.start)
        if sums.request.tokens is not None:
            token_masses(
                *place,
                section.first_position + strip.rows.start,
                *(part[sample].numpy() for part in (sums.row_tokens, sums.key_tokens, sums.previous_tokens)),
                sums.tokens[:, sample, heads].numpy(),
            )
        if sums.request.top:
            strongest(*place, sums.top_keys[sample, heads].numpy(), sums.top_weights[sample, heads].numpy())

    def add_named_masked(self, strip: Ready, hidden: Tensor) -> None:
        """The same where a cell inside a span may be hidden, by tensor operations."""
        sums = self.section.sums
        whole = self.section.strip(strip.scores, strip.rows, strip.columns)
        seen = ~hidden & whole.real[:, None]
        fraction = (strip.scores * torch.from_numpy(strip.inverse)[..., None]).masked_fill_(~seen, 0.0)
        if sums.request.tokens is not None:
            sweep_torch.add_tokens(fraction, seen, whole, sums)
        if sums.request.top:
            sweep_torch.add_top(fraction, seen, whole, sums)

"""One strip of a map in compiled loops, on the CPU: the sums of kernels/sweep_torch.py, each cell read few times."""

from __future__ import annotations

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


class NumbaSweep:
    """The sweep over the strips of one section. The loops hold no lock, so sections run side by side."""

    def __init__(self, section: Section) -> None:
        self.section, sums = section, section.sums
        sample, heads, part, group = (
            section.sample,
            section.heads,
            section.part,
            section.heads.stop - section.heads.start,
        )
        self.low, self.high = section.low.contiguous().numpy(), section.high.contiguous().numpy()
        self.real, self.count = section.real.contiguous().numpy(), section.count.numpy()
        self.keys = np.arange(section.spans.n_key, dtype=np.float32)
        self.sink = np.full(group, HIDDEN)
        if sums.score.sink is not None:
            self.sink[:] = sums.score.sink[heads].float().numpy()

        self.lse, self.rows = sums.lse[sample, heads].numpy(), sums.rows[:, sample, heads].numpy()
        self.max_key, self.negligible = sums.max_key[sample, heads].numpy(), sums.negligible[sample, heads].numpy()
        self.row_edges, self.key_edges = sums.row_edges.numpy(), sums.key_edges.numpy()
        self.by_key, self.pooled = sums.keys[part, sample, heads].numpy(), sums.pooled[sample, heads].numpy()
        self.by_distance = sums.distances[part, sample, heads].numpy()
        self.scratch = np.empty((3, section.spans.n_key), np.float32)
        self.shares = np.array(SHARES)

    def maxima(self, scores: Tensor, rows: slice, columns: slice) -> float:
        """Largest score of each row of scores [g, R, C]; returns the largest magnitude among these."""
        shape = scores.shape[:2]
        self.row_low, self.row_high = self.low[rows] - columns.start, self.high[rows] - columns.start
        self.largest, self.where = np.empty(shape, np.float32), np.empty(shape, np.int64)
        return row_maxima(scores.numpy(), self.row_low, self.row_high, self.largest, self.where)

    def sweep(self, scores: Tensor, base: Tensor, rows: slice, columns: slice) -> Tensor:
        """Turn the scores of a strip into exponentials, in place, and add to all sums. `maxima` comes first.

        base float64 [g, R] or [1, 1]: what was subtracted from the scores. Returns the divisor of each row [g, R]:
        exponential / divisor = weight.
        """
        section, request = self.section, self.section.sums.request
        cells, low, high = scores.numpy(), self.row_low, self.row_high
        if request.scores:
            self.add_moments(cells, base.numpy(), rows, columns)
        hidden = self.hidden(scores) if section.spans.masked and (request.top or request.tokens is not None) else None
        divisor, inverse = np.empty_like(self.largest), np.empty_like(self.largest)
        position = section.first_position + rows.start
        exponentials(
            *(cells, low, high, self.count, self.real),
            *(self.largest, self.where, base.numpy(), self.sink),
            *(self.keys, rows.start, columns.start, position, section.first_key),
            *(self.lse, divisor, inverse, self.rows, self.max_key, self.negligible),
        )
        if request.keys or request.pooled is not None:
            add_columns(
                *(cells, inverse, low, high, rows.start, columns.start),
                *(self.row_edges, self.key_edges, self.by_key, self.pooled, self.scratch),
            )
        if request.distances:
            add_distances(cells, inverse, low, high, section.distance_start(rows, columns), self.by_distance)
        self.add_sampled(cells, rows)
        if request.tokens is not None or request.top:
            self.add_named(scores, hidden, inverse, rows, columns)
        return torch.from_numpy(divisor)

    def hidden(self, scores: Tensor) -> Tensor:
        """Cells that are hidden, inside the spans and outside: bool [g, R, C]."""
        column = np.arange(scores.shape[-1])
        outside = (column < self.row_low[:, None]) | (column >= self.row_high[:, None])
        return (scores == HIDDEN) | torch.from_numpy(outside)

    def add_moments(self, cells: np.ndarray, base: np.ndarray, rows: slice, columns: slice) -> None:
        section, sums = self.section, self.section.sums
        start = section.distance_start(rows, columns)
        own = sums.scores[:, section.sample, section.heads].numpy()
        by_distance = sums.distance_scores[section.part, section.sample, section.heads].numpy()
        moments(cells, self.row_low, self.row_high, self.real, base, rows.start, start, own, by_distance)

    def add_sampled(self, cells: np.ndarray, rows: slice) -> None:
        """Coverage of the sampled rows among the strip's."""
        section = self.section
        which = section.sampled_among(rows)
        if which.stop == which.start:
            return
        sampled = section.sampled[which]
        ordered = np.take(cells, [row - rows.start for row in sampled], axis=1)
        ordered.sort(axis=-1)
        seen = np.broadcast_to(self.count[:, sampled], ordered.shape[:2])
        coverage(
            ordered,
            np.array(seen, order="C"),
            self.shares,
            section.sums.coverage[section.sample, section.heads, which].numpy(),
        )

    def add_named(
        self, scores: Tensor, hidden: Tensor | None, inverse: np.ndarray, rows: slice, columns: slice
    ) -> None:
        """Token masses and strongest keys; by tensor operations where a cell inside a span may be hidden."""
        section, sums = self.section, self.section.sums
        sample, heads = section.sample, section.heads
        if hidden is not None:
            strip = section.strip(scores, torch.zeros(1, 1, dtype=torch.float64), rows, columns)
            seen = ~hidden & strip.real[:, None]
            fraction = (scores * torch.from_numpy(inverse)[..., None]).masked_fill_(~seen, 0.0)
            if sums.request.tokens is not None:
                sweep_torch.add_tokens(fraction, seen, strip, sums)
            if sums.request.top:
                sweep_torch.add_top(fraction, seen, strip, sums)
            return
        place = (scores.numpy(), inverse, self.row_low, self.row_high, rows.start, columns.start)
        if sums.request.tokens is not None:
            token_masses(
                *place,
                section.first_position + rows.start,
                *(part[sample].numpy() for part in (sums.row_tokens, sums.key_tokens, sums.previous_tokens)),
                sums.tokens[:, sample, heads].numpy(),
            )
        if sums.request.top:
            strongest(*place, sums.top_keys[sample, heads].numpy(), sums.top_weights[sample, heads].numpy())

"""Where a piece of the work lies in the map.

A section is a run of rows of one sample and one key head, for the query heads that share it; a strip is some rows of a
section over the keys that any of these rows may see.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from kernels.counts import Counts
from kernels.sums import Sums
from kernels.tiles import Spans


@dataclass(eq=False)
class Section:
    """What one thread works on at a time, and the sums that it alone adds to."""

    sample: int
    heads: slice  # the g query heads
    part: int  # which run of rows of Sums it adds to
    sums: Sums
    spans: Spans
    counts: Counts

    @cached_property
    def low(self) -> Tensor:
        """First key of each row's span: int64 [Nq]"""
        return self.spans.low[self.sample]

    @cached_property
    def high(self) -> Tensor:
        return self.spans.high[self.sample]

    @cached_property
    def real(self) -> Tensor:
        """bool [Nq], False = padded row"""
        return self.spans.real[self.sample]

    @cached_property
    def count(self) -> Tensor:
        """Visible keys of each row, 0 for padded rows: int64 [1 or g, Nq]"""
        count = self.counts.rows[self.sample]
        return count[self.heads] if count.shape[0] > 1 else count

    @cached_property
    def first_key(self) -> int:
        return int(self.spans.first[self.sample])

    @cached_property
    def first_position(self) -> int:
        """p_i of row 0"""
        return int(self.spans.position[0])

    @cached_property
    def sampled(self) -> list[int]:
        return self.sums.sampled.tolist()

    def sampled_among(self, rows: slice) -> slice:
        """Which of the sampled rows are among these."""
        return slice(bisect_left(self.sampled, rows.start), bisect_left(self.sampled, rows.stop))

    def distance_start(self, rows: slice, columns: slice) -> int:
        """Place of the first cell of a strip in the sums by distance."""
        return self.sums.distance_start - (self.first_position + rows.start) + columns.start

    def strip(self, scores: Tensor, rows: slice, columns: slice) -> Strip:
        return Strip(self, scores, rows, columns)


@dataclass(eq=False)
class Strip:
    """The scores of some rows, for operations on whole tensors. Everything is on one device."""

    section: Section
    scores: Tensor  # float32 [g, R, C], contiguous; -inf where hidden; overwritten
    rows: slice  # R rows
    columns: slice  # C keys

    @property
    def place(self) -> tuple[int, slice, slice]:
        """Where the strip's rows are in a tensor [B, H, Nq, ...]."""
        return self.section.sample, self.section.heads, self.rows

    @cached_property
    def keys(self) -> Tensor:
        """int64 [C]"""
        return torch.arange(self.columns.start, self.columns.stop, device=self.scores.device)

    @cached_property
    def positions(self) -> Tensor:
        """p_i of every row: int64 [R]"""
        start = self.section.first_position
        return torch.arange(start + self.rows.start, start + self.rows.stop, device=self.scores.device)

    @cached_property
    def count(self) -> Tensor:
        """Visible keys of each row: int64 [1 or g, R]"""
        return self.section.count[:, self.rows]

    @cached_property
    def real(self) -> Tensor:
        return self.section.real[self.rows]

    @property
    def distance_start(self) -> int:
        return self.section.distance_start(self.rows, self.columns)

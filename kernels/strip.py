"""A strip: some rows of the query heads that share a key head, over the keys that any of these rows may see."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(eq=False)
class Strip:
    """The scores of one strip and where it lies in the map. Tensors on one device."""

    sample: int
    heads: slice  # the g query heads
    rows: slice  # R rows
    columns: slice  # C keys
    part: int  # which run of rows of Sums it adds to
    scores: Tensor  # float32 [g, R, C], contiguous; -inf where hidden; overwritten
    base: Tensor  # float64 [g, R] or [1, 1]: what was subtracted from the scores; 0 but for huge scores
    largest: Tensor  # float32 [g, R], largest score of each row, -inf where it sees nothing
    low: Tensor  # int64 [R], each row's span of columns
    high: Tensor  # int64 [R]
    count: Tensor  # int64 [1 or g, R], visible keys; 0 for padded rows
    real: Tensor  # bool [R]
    position: int  # p_i of the first row
    first: int  # the first real key of the sample

    @property
    def place(self) -> tuple[int, slice, slice]:
        """Where the strip's rows are in a tensor [B, H, Nq, ...]."""
        return self.sample, self.heads, self.rows

    @cached_property
    def keys(self) -> Tensor:
        """int64 [C]"""
        return torch.arange(self.columns.start, self.columns.stop, device=self.scores.device)

    @cached_property
    def positions(self) -> Tensor:
        """p_i of every row: int64 [R]"""
        return torch.arange(self.position, self.position + self.rows.stop - self.rows.start, device=self.scores.device)

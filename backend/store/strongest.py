"""What the map of one head is computed from, and the strongest keys of every row of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from backend.store import rule
from backend.store.tables import links_table
from kernels import window
from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec

NOTHING_ELSE = {"rows": False, "keys": False, "distances": False, "pooled": None, "sampled": 0}


@dataclass(frozen=True, eq=False)
class Head:
    """What the map of one head is computed from: queries, keys and lse, or the weights themselves."""

    query: Tensor | None = None  # [1, 1, Nq, D]
    key: Tensor | None = None
    lse: Tensor | None = None  # [1, 1, Nq]
    dense: np.ndarray | None = None  # [Nq, Nk]

    @property
    def nbytes(self) -> int:
        tensors = (self.query, self.key, self.lse)
        return sum(t.nbytes for t in tensors if t is not None) + (0 if self.dense is None else self.dense.nbytes)


def links(kept: Head, score: ScoreSpec, head: int, top: int) -> pa.Table:
    """head query key weight: the `top` strongest visible keys of every row. score: the rule of the head's layer."""
    own = rule.for_head(score, head)
    if kept.dense is not None:
        every = (slice(0, size) for size in kept.dense.shape)
        seen = window.visible(own, *kept.dense.shape, *every)[0, 0]
        weights, keys = torch.from_numpy(kept.dense).masked_fill(~seen, -1.0).topk(top, -1)
        return links_table(keys.masked_fill(weights < 0, -1)[None], weights[None], [head])
    nothing = torch.zeros(1, 1, kept.key.shape[2], 1)
    measures = attend(kept.query, kept.key, nothing, own, MeasureRequest(**NOTHING_ELSE, top=top)).measures
    return links_table(measures["top_keys"][0], measures["top_weights"][0], [head])

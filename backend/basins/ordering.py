"""Orders that may help: the most attended last (B-05), the most relevant where the model looks most (B-06)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backend.basins.relevance import ranking


def sorted_by_attention(scores: Sequence[float]) -> list[int]:
    """Numbers of the parts by rising score, so that the highest comes last; equal ones keep their order."""
    array = np.nan_to_num(np.asarray(scores, np.float64), nan=-np.inf)
    return np.argsort(array, kind="stable").tolist()


def attention_rank(relevance: Sequence[float], profile: Sequence[float]) -> list[int]:
    """order[s] = the part at place s: the r-th most relevant part where the model looks r-th most.

    That assignment makes the sum of relevance times profile as large as it can be.
    """
    places, parts = ranking(profile), ranking(relevance)
    order = [0] * len(places)
    for place, part in zip(places, parts, strict=True):
        order[place] = part
    return order

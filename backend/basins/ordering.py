"""Orders that may help: the most attended last (B-05), the most relevant where the model looks most (B-06)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from backend.basins.relevance import ranking


def sorted_by_attention(scores: Sequence[float]) -> list[int]:
    """Numbers of the parts by rising score, so that the highest comes last; equal ones keep their order."""
    array = np.nan_to_num(np.asarray(scores, np.float64), nan=-np.inf)
    return np.argsort(array, kind="stable").tolist()


def attention_sort(
    parts: int, score: Callable[[list[int]], Sequence[float]], most: int
) -> tuple[list[int], list[list[int]]]:
    """Reads and sorts until the order stays the same, at most `most` times: the order, and each one on the way.

    score(order) gives the score of the part at every place of that order.
    """
    order, way = list(range(parts)), []
    for _ in range(most):
        places = sorted_by_attention(score(order))
        following = [order[place] for place in places]
        way.append(following)
        if following == order:
            break
        order = following
    return order, way


def attention_rank(relevance: Sequence[float], profile: Sequence[float]) -> list[int]:
    """order[s] = the part at place s: the r-th most relevant part where the model looks r-th most.

    That assignment makes the sum of relevance times profile as large as it can be.
    """
    places, parts = ranking(profile), ranking(relevance)
    order = [0] * len(places)
    for place, part in zip(places, parts, strict=True):
        order[place] = part
    return order

"""Rankings of the parts by what they get, and how good a ranking is where the right part is known (R-04)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from backend.basins.slots import Slots

TOP_TOKENS = 10


def scores(tokens: np.ndarray, slots: Slots) -> dict[str, np.ndarray]:
    """Three scores of every part from the weight on each token [N].

    total favours long parts, mean short ones; top, the mean of the TOP_TOKENS strongest tokens, neither.
    """
    found: dict[str, list[float]] = {"top": [], "mean": [], "total": []}
    for part in slots.parts:
        own = tokens[part.start : part.stop]
        own = np.sort(own[np.isfinite(own)])[::-1]
        for name, values in (("top", own[:TOP_TOKENS]), ("mean", own)):
            found[name].append(float(values.mean()) if len(values) else math.nan)
        found["total"].append(float(own.sum()) if len(own) else math.nan)
    return {name: np.array(values) for name, values in found.items()}


def ranking(values: Sequence[float]) -> list[int]:
    """Numbers of the parts by falling score; undefined ones last, equal ones in the order of the prompt."""
    array = np.nan_to_num(np.asarray(values, np.float64), nan=-np.inf)
    return np.argsort(-array, kind="stable").tolist()


def recall_at(order: Sequence[int], gold: Collection[int], k: int) -> float | None:
    """Share of the right parts among the first k; None where none is marked."""
    return len(set(order[:k]) & set(gold)) / len(set(gold)) if gold else None


def ndcg_at(order: Sequence[int], gold: Collection[int], k: int = 10) -> float | None:
    """Discounted gain of the first k relative to the best order; 1 = all right parts first."""
    if not gold:
        return None
    gains = [1 / math.log2(place + 2) for place, part in enumerate(order[:k]) if part in gold]
    return sum(gains) / sum(1 / math.log2(place + 2) for place in range(min(k, len(set(gold)))))


def reciprocal_rank(order: Sequence[int], gold: Collection[int]) -> float | None:
    """1 / place of the first right part, counted from 1."""
    return next((1 / (place + 1) for place, part in enumerate(order) if part in gold), None)


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation over the pairs that are both defined; None for fewer than 3, or where one does not vary."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    there = np.isfinite(a) & np.isfinite(b)
    if there.sum() < 3:
        return None
    a, b = ranks(a[there]), ranks(b[there])
    if a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; equal values share the mean of theirs."""
    order = np.argsort(values, kind="stable")
    found = np.empty(len(values))
    found[order] = np.arange(len(values))
    for value in np.unique(values):
        same = values == value
        found[same] = found[same].mean()
    return found

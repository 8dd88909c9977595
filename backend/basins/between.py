"""What each part of a prompt gives to each other part (R-09)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.basins.slots import Slot, Slots
from backend.basins.stored import stored_sinks
from backend.sink_free import without_sinks
from backend.statistics.statistic import ratio
from backend.store import Analysis

ROWS_AT_ONCE = 512
OTHER = "everything else"


@dataclass(frozen=True, eq=False)
class Between:
    """mass[a, b]: what the tokens of part a give to part b, mean over them and over the heads in which any sees part b.

    The last column is everything else. A row sums to 1 where every head sees the same parts.
    """

    names: tuple[str, ...]  # of the rows; the columns are these and OTHER
    mass: np.ndarray  # [S, S + 1]; NaN where no head sees part b from a
    across: float | None  # mean over the tokens of the compared parts of what goes to other compared parts
    heads: int  # how many were averaged


def between(
    analysis: Analysis,
    slots: Slots,
    places: Sequence[tuple[int, int]],
    *,
    kind: str = "self",
    sinkfree: bool = True,
) -> Between:
    """Mean over the given heads (layer, head), from the stored queries and keys."""
    parts = [*slots.parts, *([slots.question] if slots.question is not None else [])]
    n_tokens = len(analysis.tokens_list())
    group = np.zeros((n_tokens, len(parts)))
    for column, part in enumerate(parts):
        group[part.start : part.stop, column] = 1
    sinks = stored_sinks(analysis, kind) if sinkfree else {}
    total, seeing = np.zeros((2, len(parts), len(parts) + 1))  # heads that see a part; the last: that have any row
    for layer, head in places:
        head_total, head_rows, head_reach = of_head(analysis, layer, head, kind, sinks.get((layer, head)), parts, group)
        there = head_rows > 0
        total[there] += head_total[there] / head_rows[there, None]
        seeing[there] += np.concatenate([head_reach, there[:, None]], 1)[there]
    names = tuple(part.name for part in parts)
    return Between(names, ratio(total, seeing), across(ratio(total, seeing[:, -1:]), slots), len(places))


def of_head(
    analysis: Analysis,
    layer: int,
    head: int,
    kind: str,
    sinks: tuple[int, ...] | None,
    parts: list[Slot],
    group: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums [S, S + 1] over the rows of each part, how many rows they are [S], and what they see [S, S]."""
    total, rows = np.zeros((len(parts), len(parts) + 1)), np.zeros(len(parts))
    reach = np.zeros((len(parts), len(parts)), bool)
    for start in range(0, len(group), ROWS_AT_ONCE):
        window = slice(start, min(start + ROWS_AT_ONCE, len(group)))
        weights, seen = (part(layer, head, window, kind=kind) for part in (analysis.map, analysis.visible))
        if sinks is not None:
            weights, seen = without_sinks(weights, seen, sinks)
        says = seen.any(-1)
        weights = np.where(says[:, None], weights, 0.0)
        mass = weights @ group
        mass = np.concatenate([mass, weights.sum(-1, keepdims=True) - mass.sum(-1, keepdims=True)], 1)
        mine = group[window]  # which part each of these rows belongs to
        total += mine.T @ mass
        rows += mine.T @ says
        reach |= (mine.T @ (seen @ group)) > 0
    return total, rows, reach


def across(mass: np.ndarray, slots: Slots) -> float | None:
    """Share of the tokens' attention that goes from one compared part to others; None for one part.

    mass: mean over all heads, what is out of sight counting as 0. A part whose row is NaN has no rows: it is left out.
    """
    count = len(slots.parts)
    square = mass[:count, :count]
    known = np.isfinite(square).all(1)
    if count < 2 or not known.any():
        return None
    lengths = np.array([part.length for part in slots.parts], float)[known]
    leaving = (square.sum(1) - np.diag(square))[known]
    return float((leaving * lengths).sum() / lengths.sum())

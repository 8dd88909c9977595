"""What each part of a prompt gives to each other part (R-09)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.basins.slots import Slots
from backend.sink_free import sinks_of, without_sinks
from backend.store import Analysis

ROWS_AT_ONCE = 256
OTHER = "everything else"


@dataclass(frozen=True, eq=False)
class Between:
    """mass[a, b]: mean over the tokens of part a of what they give to part b. The last column is everything else."""

    names: tuple[str, ...]  # of the rows; the columns are these and OTHER
    mass: np.ndarray  # [S, S + 1]; every row sums to 1; NaN where part b cannot be seen from a
    across: float | None  # mean over the tokens of the compared parts of what goes to other compared parts
    heads: int  # how many were averaged


def between(
    analysis: Analysis, slots: Slots, places: list[tuple[int, int]], *, kind: str = "self", sinkfree: bool = True
) -> Between:
    """Mean over the given heads (layer, head), from the stored queries and keys."""
    parts = [*slots.parts, *([slots.question] if slots.question is not None else [])]
    total = np.zeros((len(parts), len(parts) + 1))
    seen_any = np.zeros(total.shape, bool)
    counts = np.zeros((len(parts), 1))
    for layer, head in places:
        sinks = sinks_of(analysis, layer, head, kind) if sinkfree else None
        for a, part in enumerate(parts):
            mean, seen = part_rows(analysis, layer, head, kind, part, sinks)
            if mean is None:
                continue
            counts[a] += 1
            columns = [mean[p.start : p.stop].sum() for p in parts]
            total[a] += [*columns, mean.sum() - sum(columns)]
            seen_any[a] |= [*(bool(seen[p.start : p.stop].any()) for p in parts), True]
    mass = np.where(seen_any, total / np.maximum(counts, 1), np.nan)
    return Between(tuple(part.name for part in parts), mass, across(mass, slots), len(places))


def part_rows(analysis: Analysis, layer: int, head: int, kind: str, part, sinks) -> tuple:
    """Mean weight [N] that the rows of a part give to each token (None: sinks get all), and which they see."""
    seen_any, total, rows = None, 0.0, 0
    for start in range(part.start, part.stop, ROWS_AT_ONCE):
        window = slice(start, min(start + ROWS_AT_ONCE, part.stop))
        weights = analysis.map(layer, head, window, kind=kind).astype(np.float64)
        seen = analysis.visible(layer, head, window, kind=kind)
        if sinks is not None:
            weights, seen = without_sinks(weights, seen, sinks)
        says = np.isfinite(weights).all(-1)
        total = total + weights[says].sum(0)
        rows += int(says.sum())
        seen_any = seen.any(0) if seen_any is None else seen_any | seen.any(0)
    return total / rows if rows else None, seen_any


def across(mass: np.ndarray, slots: Slots) -> float | None:
    """Share of the tokens' attention that goes from one compared part to others; None for one part."""
    count = len(slots.parts)
    if count < 2:
        return None
    square = np.nan_to_num(mass[:count, :count])
    lengths = np.array([part.length for part in slots.parts], float)
    leaving = square.sum(1) - np.diag(square)
    return float((leaving * lengths).sum() / lengths.sum())

"""What parts of a text get from some rows: sums over windows of maps, which no table holds.

A head is named "layer.head"; without one, the mean over all heads is meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from backend.store import Analysis

Window = Sequence[int]  # start, stop


def masses(analysis: Analysis, rows: Window, columns: Sequence[Window], head: str | None = None) -> np.ndarray:
    """What each span of columns gets, mean over the rows and the heads: float64 [spans]."""
    row = mean_row(analysis, tuple(rows), head)
    return np.array([row[start:stop].sum() for start, stop in columns])


@lru_cache(maxsize=64)  # an analysis never changes
def mean_row(analysis: Analysis, rows: tuple[int, int], head: str | None) -> np.ndarray:
    """The mean over the rows and the heads: float64 [Nk]."""
    heads = [(one.layer, number) for one in analysis.layers() for number in range(one.heads)]
    chosen = heads if head is None else [tuple(int(part) for part in head.split("."))]
    found = [analysis.map(layer, number, slice(*rows)).mean(0, dtype=np.float64) for layer, number in chosen]
    return np.mean(found, 0)


def share(
    analysis: Analysis,
    rows: Window,
    columns: Window | None = None,
    head: str | None = None,
    segment: str | None = None,
    among: str | None = None,
) -> float:
    """What columns, or a segment, get of the rows; among: of what all segments of that kind get."""
    segments = {one.name: (one.start, one.end) for one in analysis.segments()}
    own = columns if segment is None else segments[segment]
    if among is None:
        return float(masses(analysis, rows, [own], head)[0])
    every = [(one.start, one.end) for one in analysis.segments() if one.kind == among]
    found = masses(analysis, rows, [own, *every], head)
    return float(found[0] / found[1:].sum())


def bars_of_segments(
    analysis: Analysis, kind: str, rows: Window, head: str | None = None, marked: str | None = None
) -> list[dict]:
    """One bar per segment of a kind: its part of what all of them get, and its part of their tokens."""
    segments = [one for one in analysis.segments() if one.kind == kind]
    found = masses(analysis, rows, [(one.start, one.end) for one in segments], head)
    lengths = np.array([one.end - one.start for one in segments])
    return [
        {"label": one.name, "value": value, "uniform": length, "marked": one.name == marked}
        for one, value, length in zip(segments, found / found.sum(), lengths / lengths.sum(), strict=True)
    ]

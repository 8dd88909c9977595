"""Attention of one head between words, sentences or segments, read from a stored analysis a window at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from backend.errors import Refused
from backend.map_sizes import SIDES, axis_sides, map_sizes, segment_sides
from backend.sink_free import without_sinks
from backend.store import Analysis
from backend.words import Group, gather, groups, numbers_of

DIRECTIONS = ("from", "to")
STRIP = 2**22  # cells of a map that are held at once
MOST_CELLS = 2**28  # that are gone through while somebody waits: all of 16,384 tokens
Sinks = tuple[int, ...] | None  # keys whose share is taken out of every row (K-05), learned sinks too; None = none are


@dataclass(frozen=True, eq=False)
class Units:
    """The two texts of a map, cut into units."""

    queries: list[Group]
    keys: list[Group]
    query_of: np.ndarray  # [Nq] the unit of every row
    key_of: np.ndarray  # [Nk]


def units_of(analysis: Analysis, kind: str, layer: int, unit: str) -> Units:
    """The units of both sides of a layer's map. Positions that stand for several tokens each are units of their own."""
    size = map_sizes(analysis)[kind][layer]
    by_side = {side: [token for token in analysis.tokens_list() if token.side == side] for side in SIDES[kind]}
    owners = segment_sides(analysis)
    found = []
    for side, length in zip(axis_sides(analysis, kind, layer), (size.queries, size.keys), strict=True):
        if side in by_side:
            segments = [one for one, owner in zip(analysis.segments(), owners, strict=True) if owner == side]
            cut = groups(by_side[side], unit, segments)
        else:
            cut = [Group(place, place + 1, "", str(place)) for place in range(length)]
        found.append((cut, numbers_of(cut, length)))
    (queries, query_of), (keys, key_of) = found
    return Units(queries, keys, query_of, key_of)


def profile(
    analysis: Analysis,
    layer: int,
    head: int,
    kind: str,
    units: Units,
    chosen: Sequence[int],
    direction: str,
    sinks: Sinks = None,
) -> tuple[np.ndarray, np.ndarray]:
    """How much each unit gets from the chosen ones (mean over those), or gives to them (sum over those).

    Returns values and visibility, one per key unit ("from") or per query unit ("to"). NoExactMap where the head's
    queries and keys were not kept.
    """
    every_query, every_key = slice(0, len(units.queries)), slice(0, len(units.keys))
    side = units.keys if direction == "from" else units.queries
    total, seen, count = np.zeros(len(side)), np.zeros(len(side), bool), 0
    for number in chosen:
        own = slice(number, number + 1)
        queries, keys = (own, every_key) if direction == "from" else (every_query, own)
        values, visible, rows = added_up(analysis, layer, head, kind, units, queries, keys, sinks)
        if direction == "to" or rows[0]:
            total, seen, count = total + values.ravel(), seen | visible.ravel(), count + 1
    return total / (max(count, 1) if direction == "from" else 1), seen


def between(
    analysis: Analysis,
    layer: int,
    head: int,
    kind: str,
    units: Units,
    queries: slice,
    keys: slice,
    sinks: Sinks = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and visibility between a run of query units and a run of key units."""
    return added_up(analysis, layer, head, kind, units, queries, keys, sinks)[:2]


def added_up(
    analysis: Analysis, layer: int, head: int, kind: str, units: Units, queries: slice, keys: slice, sinks: Sinks
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights and visibility between two runs of units, and of how many rows each query unit is the mean.

    The map is gone through in strips of rows: what is held does not grow with it. Refused where it takes long."""
    rows = slice(units.queries[queries.start].start, units.queries[queries.stop - 1].end)
    columns = slice(units.keys[keys.start].start, units.keys[keys.stop - 1].end)
    shape = (queries.stop - queries.start, keys.stop - keys.start)
    total, seen, count = np.zeros(shape), np.zeros(shape, bool), np.zeros(shape[0])
    every = seeing(analysis, layer, head, kind, len(units.query_of)) if sinks is None else None
    width = len(units.key_of) if sinks is not None else columns.stop - columns.start
    if (cells := (rows.stop - rows.start) * width) > MOST_CELLS:
        raise Refused(
            f"Adding up {rows.stop - rows.start:,} rows of {width:,} keys, {cells:,} weights, takes longer than a page "
            f"waits (at most {MOST_CELLS:,}). Choose a smaller unit."
        )
    for part in strips(rows, width):
        values, visible, sees = window(analysis, layer, head, kind, part, columns, sinks)
        sees = sees if every is None else every[part]
        own = units.query_of[part] - queries.start
        mean, here = gather(values, visible, own, units.key_of[columns] - keys.start, *shape, sees=sees)
        members = np.bincount(own[sees], minlength=shape[0])
        total, seen, count = total + mean * members[:, None], seen | here, count + members
    return np.divide(total, count[:, None], out=np.zeros_like(total), where=count[:, None] > 0), seen, count


def strips(rows: slice, width: int) -> Iterator[slice]:
    """The rows in runs of at most STRIP cells."""
    step = max(1, STRIP // max(width, 1))
    for start in range(rows.start, rows.stop, step):
        yield slice(start, min(start + step, rows.stop))


def window(
    analysis: Analysis, layer: int, head: int, kind: str, rows: slice, columns: slice, sinks: Sinks
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights and visibility of a window of the map, and which of its rows see any key of it."""
    part = columns if sinks is None else None  # what is left of a row is known of the whole row
    weights = analysis.map(layer, head, rows, part, kind=kind)
    seen = analysis.visible(layer, head, rows, part, kind=kind)
    if sinks is not None:
        weights, seen = without_sinks(weights, seen, sinks)
    sees = seen.any(1)
    if sinks is not None:
        weights, seen = weights[:, columns], seen[:, columns]
    return np.nan_to_num(weights), seen, sees


def seeing(analysis: Analysis, layer: int, head: int, kind: str, n: int) -> np.ndarray:
    """[n] which rows see any key."""
    answer = analysis.sql(
        "SELECT query FROM rows WHERE kind = ? AND layer = ? AND head = ? AND coalesce(visible_keys, 0) = 0",
        (kind, layer, head),
    )
    sees = np.ones(n, bool)
    sees[answer["query"].to_numpy().astype(int)] = False
    return sees

"""Attention of one head between words, sentences or segments, read from a stored analysis a window at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.map_sizes import SIDES, axis_sides, map_sizes, segment_sides
from backend.store import Analysis
from backend.words import Group, gather, groups, numbers_of

DIRECTIONS = ("from", "to")


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
    analysis: Analysis, layer: int, head: int, kind: str, units: Units, chosen: Sequence[int], direction: str
) -> tuple[np.ndarray, np.ndarray]:
    """How much each unit gets from the chosen ones (mean over those), or gives to them (sum over those).

    Returns values and visibility, one per key unit ("from") or per query unit ("to"). NoExactMap where the head's
    queries and keys were not kept.
    """
    sees = seeing(analysis, layer, head, kind, len(units.query_of))
    if direction == "from":
        total, seen, count = np.zeros(len(units.keys)), np.zeros(len(units.keys), bool), 0
        for number in chosen:
            rows = slice(units.queries[number].start, units.queries[number].end)
            values, visible = window(analysis, layer, head, kind, rows, None)
            mean, any_seen = gather(
                values, visible, np.zeros(len(values), int), units.key_of, 1, len(units.keys), sees=sees[rows]
            )
            if sees[rows].any():
                total, seen, count = total + mean[0], seen | any_seen[0], count + 1
        return total / max(count, 1), seen
    total, seen = np.zeros(len(units.queries)), np.zeros(len(units.queries), bool)
    for number in chosen:
        columns = slice(units.keys[number].start, units.keys[number].end)
        values, visible = window(analysis, layer, head, kind, None, columns)
        to = np.where(visible, values, 0.0).sum(1)
        mean = np.bincount(units.query_of[sees], weights=to[sees], minlength=len(units.queries))
        count = np.bincount(units.query_of[sees], minlength=len(units.queries))
        total += np.divide(mean, count, out=np.zeros_like(mean), where=count > 0)
        seen |= np.bincount(units.query_of, weights=visible.any(1), minlength=len(units.queries)) > 0
    return total, seen


def between(
    analysis: Analysis, layer: int, head: int, kind: str, units: Units, queries: slice, keys: slice
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and visibility between a run of query units and a run of key units."""
    rows = slice(units.queries[queries.start].start, units.queries[queries.stop - 1].end)
    columns = slice(units.keys[keys.start].start, units.keys[keys.stop - 1].end)
    values, visible = window(analysis, layer, head, kind, rows, columns)
    return gather(
        values,
        visible,
        units.query_of[rows] - queries.start,
        units.key_of[columns] - keys.start,
        queries.stop - queries.start,
        keys.stop - keys.start,
        sees=seeing(analysis, layer, head, kind, len(units.query_of))[rows],
    )


def window(
    analysis: Analysis, layer: int, head: int, kind: str, rows: slice | None, columns: slice | None
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and visibility of a window of the map."""
    weights = analysis.map(layer, head, rows, columns, kind=kind)
    return np.nan_to_num(weights), analysis.visible(layer, head, rows, columns, kind=kind)


def seeing(analysis: Analysis, layer: int, head: int, kind: str, n: int) -> np.ndarray:
    """[n] which rows see any key."""
    answer = analysis.sql(
        "SELECT query FROM rows WHERE kind = ? AND layer = ? AND head = ? AND coalesce(visible_keys, 0) = 0",
        (kind, layer, head),
    )
    sees = np.ones(n, bool)
    sees[answer["query"].to_numpy().astype(int)] = False
    return sees

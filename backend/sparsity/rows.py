"""Rows of a stored head, ready for the mathematics of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from backend.errors import Refused
from backend.map_sizes import MapSize, map_sizes
from backend.store import Analysis
from kernels.measures import sampled_rows

MOST_CELLS = 2**21  # of a map that is looked at in one piece: all rows up to 1,448 tokens


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of one map. Weights are divided by the row's visible mass, so that a learned sink plays no part."""

    weights: np.ndarray  # float64 [R, Nk], 0 where invisible
    visible: np.ndarray  # bool [R, Nk]
    position: np.ndarray  # int64 [R], place p_i of each row among the keys

    @property
    def counts(self) -> np.ndarray:
        """n_i: int64 [R]."""
        return self.visible.sum(-1)

    @cached_property
    def ascending(self) -> np.ndarray:
        """Weights of each row, smallest first: what is invisible comes before all that is visible. [R, Nk]"""
        return np.sort(self.weights, axis=-1)

    @cached_property
    def held(self) -> np.ndarray:
        """Mass of the strongest key of each row, of the two strongest ... [R, Nk]"""
        return np.cumsum(self.ascending[:, ::-1], -1)

    def numbers(self, size: MapSize, causal: bool) -> np.ndarray:
        """Which queries of the map the rows are: rows that see nothing were left out, wherever they stood."""
        return self.position - (size.keys - size.queries if causal else 0)


def rows_from(weights: np.ndarray, visible: np.ndarray, position: np.ndarray) -> Rows:
    """Rows that see at least one key, each summing to 1."""
    found, position = np.array(weights, np.float64), np.asarray(position, np.int64)
    np.copyto(found, 0.0, where=~visible)
    mass = found.sum(-1)
    there = visible.any(-1) & (mass > 0)
    if not there.all():
        found, visible, position, mass = (values[there] for values in (found, visible, position, mass))
    found /= mass[:, None]
    return Rows(found, visible, position)


def uniform_rows(n: int, window: int | None = None) -> Rows:
    """Causal rows that give every key they see the same weight: the baseline of everything here."""
    distance = np.arange(n)[:, None] - np.arange(n)[None, :]
    visible = (distance >= 0) & (distance < (window or n))
    return rows_from(visible / visible.sum(-1, keepdims=True), visible, np.arange(n))


def read_rows(analysis: Analysis, kind: str, layer: int, head: int, rows: slice) -> Rows:
    """A run of rows of a stored map. NoExactMap where the head's queries and keys were not kept."""
    size = map_sizes(analysis)[kind][layer]
    offset = size.keys - size.queries if analysis.score(layer, kind).causal else 0
    return rows_from(
        analysis.map(layer, head, rows, None, kind=kind),
        analysis.visible(layer, head, rows, None, kind=kind),
        np.arange(rows.start, rows.stop) + offset,
    )


def read_head(analysis: Analysis, kind: str, layer: int, head: int, count: int = 64) -> tuple[Rows, Rows]:
    """The rows that patterns are measured on, and those whose sorted weights the file counts too.

    The first are all rows, or the last ones of a map that is too large to be looked at in one piece; the second the
    last 16 rows and others evenly spread before them.
    """
    size = map_sizes(analysis)[kind][layer]
    part = measured_rows(size.queries, size.keys)
    measured = read_rows(analysis, kind, layer, head, part)
    wanted = sampled_rows(size.queries, count)
    offset = size.keys - size.queries if analysis.score(layer, kind).causal else 0
    inside = np.isin(measured.position, wanted.numpy() + offset)
    before = [
        read_rows(analysis, kind, layer, head, slice(row, row + 1)) for row in wanted.tolist() if row < part.start
    ]
    parts = [*before, Rows(measured.weights[inside], measured.visible[inside], measured.position[inside])]
    names = ("weights", "visible", "position")
    return measured, Rows(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))


def measured_rows(n_query: int, n_key: int) -> slice:
    """The rows that a pattern is measured on: the last ones, as many as fit MOST_CELLS. Refused for a huge row."""
    if n_key > MOST_CELLS:
        raise Refused(f"A row of {n_key:,} keys is longer than what patterns are measured on ({MOST_CELLS:,}).")
    return slice(max(0, n_query - max(1, MOST_CELLS // n_key)), n_query)


def measured_note(n_query: int, n_key: int) -> str:
    """What a figure of patterns says where not all rows were looked at, else nothing."""
    count = n_query - measured_rows(n_query, n_key).start
    return "" if count == n_query else f"Measured on the last {count:,} of {n_query:,} rows, not on the whole prompt. "


def read_note(analysis: Analysis, kind: str, layer: int) -> str:
    """`measured_note` of one layer's maps."""
    size = map_sizes(analysis)[kind][layer]
    return measured_note(size.queries, size.keys)

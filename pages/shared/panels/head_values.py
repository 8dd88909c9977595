"""One statistic over all heads of an analysis, with its baseline: what grid, list and sentences are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import streamlit as st

from backend import statistics
from backend.statistics import Statistic
from backend.store import Analysis


@dataclass(frozen=True)
class HeadValues:
    """A statistic of every head of one kind of attention."""

    name: str
    by_layer: dict[int, list[float]]  # NaN where undefined
    uniform: dict[int, float | None]  # layer -> the statistic of uniform attention
    sinkfree: bool = False  # of the rows without their sinks

    @property
    def statistic(self) -> Statistic:
        return statistics.all()[self.name]

    @property
    def words(self) -> str:
        return self.name.replace("_", " ")

    def of(self, layer: int, head: int) -> float:
        return self.by_layer[layer][head]

    def ranked(self) -> list[tuple[int, int, float]]:
        """(layer, head, value) of the heads that have one, largest first."""
        found = [(layer, head, v) for layer, row in self.by_layer.items() for head, v in enumerate(row)]
        return sorted((one for one in found if math.isfinite(one[2])), key=lambda one: -one[2])


def head_values(analysis: Analysis, kind: str, name: str) -> HeadValues:
    """The values of one statistic. An analysis never changes, so they are read once."""
    uniform = {row["layer"]: row.get(name) for row in analysis.info.get("uniform", []) if row["kind"] == kind}
    return HeadValues(name, _by_layer(analysis, analysis.id, kind, name), uniform)


@st.cache_data(max_entries=256, show_spinner=False)
def _by_layer(_analysis: Analysis, id: str, kind: str, name: str) -> dict[int, list[float]]:
    grid = _analysis.statistic(name, kind)
    grid = np.where(np.isfinite(grid), grid, np.nan)  # a file from elsewhere may hold infinities
    return {one.layer: grid[at, : one.heads].tolist() for at, one in enumerate(_analysis.layers(kind))}

"""What the page of sparsity computes from a stored analysis: once per layer and budget, kept between visits."""

from __future__ import annotations

import streamlit as st

from backend.map_sizes import map_sizes
from backend.sparsity.head_table import layer_rows
from backend.sparsity.local import WINDOW, local_suffices
from backend.sparsity.rows import read_head
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.view_state import ViewState

BUDGETS = (5, 10, 20, 50)  # percent of the visible pairs
KEY = "headwater_sparsity_budget"
CURVES = """
select c.layer, c.head, c.percent, avg(c.keys) as keys, avg(c.keys * 1.0 / r.visible_keys) as share
from coverage c join rows r using (kind, layer, head, query)
where kind = ? and r.visible_keys >= 2 and c.keys > 0
group by all order by c.layer, c.head, c.percent
"""
ALONG = """
select c.query, c.percent, c.keys, r.visible_keys
from coverage c join rows r using (kind, layer, head, query)
where kind = ? and layer = ? and head = ? and c.keys > 0 order by c.query, c.percent
"""


def budget_of(state: ViewState) -> int:
    """The share of the visible pairs at which patterns are compared, in percent; a choice."""
    text = state.more("budget", "10")
    budget = int(text) if text.isdecimal() and int(text) in BUDGETS else 10
    st.session_state[KEY] = budget
    st.segmented_control(
        "Patterns may keep this share of all pairs (query, key)",
        BUDGETS,
        format_func=lambda percent: f"{percent} %",
        key=KEY,
        on_change=_take_budget,
    )
    return budget


def _take_budget() -> None:
    chosen = st.session_state[KEY]
    select(budget=None if chosen in (None, 10) else str(chosen))


def head_rows(analysis: Analysis, kind: str, budget: int) -> list[dict]:
    """The records of all heads with exact maps; says how far it is where that takes a while."""
    found: list[dict] = []
    layers = analysis.layers(kind)
    place = st.empty()
    for at, layer in enumerate(layers):
        if at and not at % 3:
            place.progress(at / len(layers), text=f"Looking at the maps of layer {at} of {len(layers)}")
        found += _layer(analysis, analysis.id, kind, layer.layer, budget)
    place.empty()
    return found


@st.cache_data(max_entries=2048, show_spinner=False)
def _layer(_analysis: Analysis, id: str, kind: str, layer: int, budget: int) -> list[dict]:
    return layer_rows(_analysis, kind, layer, budget / 100)


@st.cache_data(max_entries=64, show_spinner=False)
def coverage_of_heads(_analysis: Analysis, id: str, kind: str) -> list[dict]:
    """layer head percent keys share, means over the sampled rows that see two keys or more; of every head."""
    return _analysis.sql(CURVES, (kind,)).to_pylist()


def coverage_along(analysis: Analysis, kind: str, layer: int, head: int) -> list[dict]:
    """query percent keys visible_keys of the sampled rows of one head."""
    return analysis.sql(ALONG, (kind, layer, head)).to_pylist()


def windows_of_heads(analysis: Analysis, kind: str) -> tuple[int, list[dict]]:
    """The window that is called near, and layer head local_suffices of all heads with exact maps."""
    layers = analysis.layers(kind)
    keys = map_sizes(analysis)[kind][layers[0].layer].keys
    near = min(WINDOW, max(2, keys // 4))
    found: list[dict] = []
    place = st.empty()
    for at, layer in enumerate(layers):
        if at and not at % 3:
            place.progress(at / len(layers), text=f"Looking at the rows of layer {at} of {len(layers)}")
        found += _near(analysis, analysis.id, kind, layer.layer, near)
    place.empty()
    return near, found


@st.cache_data(max_entries=2048, show_spinner=False)
def _near(_analysis: Analysis, id: str, kind: str, layer: int, near: int) -> list[dict]:
    found = []
    for head in _analysis.exact_heads(layer, kind):
        measured, _ = read_head(_analysis, kind, layer, head)
        found.append({"layer": layer, "head": head, "local_suffices": local_suffices(measured, near)})
    return found

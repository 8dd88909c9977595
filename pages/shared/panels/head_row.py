"""The selected row of the map as bars with words."""

from __future__ import annotations

import streamlit as st

from backend.map_sizes import SIDES, map_sizes
from backend.store import Analysis
from pages.shared.charts.row_bars import row_bars
from pages.shared.panels.sink_keys import sink_keys
from pages.shared.view_state import ViewState


def head_row(state: ViewState, analysis: Analysis, labels: dict[str, list[str]]) -> None:
    """Draws where one query looks: the row clicked in the map, else the last one, which predicts the next token."""
    last = map_sizes(analysis)[state.kind][state.layer].queries - 1
    row = last if state.query is None else state.query
    query_side, key_side = SIDES[state.kind]
    rows = slice(row, row + 1)
    weights = analysis.map(state.layer, state.head, rows, None, kind=state.kind)[0]
    visible = analysis.visible(state.layer, state.head, rows, None, kind=state.kind)[0]
    chosen = "" if state.query is not None else " (the last; click a row in the map to choose another)"
    st.text(f"Where query {row} “{labels[query_side][row]}” looks{chosen}")
    if not visible.any():
        st.text("This query sees no key.")
        return
    sinks = sink_keys(analysis, analysis.id, state.kind, state.layer, state.head)
    st.altair_chart(row_bars(weights, visible, labels[key_side], sinks=sinks), key="headwater_row")

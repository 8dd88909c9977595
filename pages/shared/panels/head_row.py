"""The selected row of the map as bars with words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.map_sizes import axis_labels, map_sizes
from backend.sink_free import without_sinks
from backend.store import Analysis
from pages.shared.charts.row_bars import row_bars
from pages.shared.panels.figure import figure
from pages.shared.panels.sink_keys import sink_keys, taken_out
from pages.shared.panels.unit_sentences import from_sentence, taken_out_sentence
from pages.shared.view_state import ViewState


def head_row(state: ViewState, analysis: Analysis, labels: dict[str, list[str]]) -> None:
    """Draws where one query looks: the row clicked in the map, else the last one, which predicts the next token."""
    last = map_sizes(analysis)[state.kind][state.layer].queries - 1
    row = last if state.query is None else state.query
    query_labels, key_labels = axis_labels(analysis, state.kind, state.layer, labels)
    rows = slice(row, row + 1)
    weights = analysis.map(state.layer, state.head, rows, None, kind=state.kind)[0]
    visible = analysis.visible(state.layer, state.head, rows, None, kind=state.kind)[0]
    chosen = "" if state.query is not None else " (the last; click a row in the map to choose another)"
    st.text(f"Where query {row} “{query_labels[row]}” looks{chosen}")
    if not visible.any():
        st.text("This query sees no key.")
        return
    sinks = sink_keys(analysis, analysis.id, state.kind, state.layer, state.head)
    out = taken_out(state, analysis)
    if out is not None:
        shares, left = without_sinks(weights[None], visible[None], out)
        if not left.any():
            st.text("Without the sinks of this head nothing is left of this row.")
            return
        weights, visible, sinks = shares[0], left[0], ()
    figure(
        "head_row",
        row_bars(weights, visible, key_labels, sinks=sinks),
        sentence=from_sentence(weights, visible, key_labels, [row], sinkfree=out is not None),
        note=None if out is None else taken_out_sentence(out),
        table=table_of(weights, visible, key_labels),
    )


def table_of(weights: np.ndarray, visible: np.ndarray, labels: list[str]) -> pa.Table:
    """The visible keys of the row with their weights, in reading order."""
    keys = np.flatnonzero(visible)
    return pa.table(
        {
            "key": pa.array(keys, pa.int64()),
            "token": pa.array([labels[key] for key in keys], pa.string()),
            "weight": pa.array(weights[keys].astype(float), pa.float64()),
        }
    )

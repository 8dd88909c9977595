"""The sink columns of one head: what "Hide sinks" leaves out of colour and scale."""

from __future__ import annotations

import streamlit as st

from backend.store import Analysis

SINK_IMPORTANCE, SINK_ROWS = 0.1, 16  # a key is detected as a sink above this mean weight, over at least so many rows


@st.cache_data(max_entries=2048, show_spinner=False)
def sink_keys(_analysis: Analysis, id: str, kind: str, layer: int, head: int) -> tuple[int, ...]:
    """Keys that receive more than SINK_IMPORTANCE on average over the rows that see them, strongest first."""
    table = _analysis.sql(
        "select key from keys where kind = ? and layer = ? and head = ? and received_mean > ? and visible_rows >= ? "
        "order by received_mean desc",
        (kind, layer, head, SINK_IMPORTANCE, SINK_ROWS),
    )
    return tuple(table.column("key").to_pylist())

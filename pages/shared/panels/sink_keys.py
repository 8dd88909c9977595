"""The sink columns of one head: what "Hide sinks" leaves out of colour and scale, "Without sinks" out of every row."""

from __future__ import annotations

import streamlit as st

from backend.detected import sinks_of
from backend.store import Analysis
from pages.shared.view_state import ViewState


@st.cache_data(max_entries=2048, show_spinner=False)
def sink_keys(_analysis: Analysis, id: str, kind: str, layer: int, head: int) -> tuple[int, ...]:
    """The detected sinks of a head, strongest first."""
    return sinks_of(_analysis, layer, head, kind)


def taken_out(state: ViewState, analysis: Analysis) -> tuple[int, ...] | None:
    """The keys whose share is taken out of every row of the chosen head; None where the view is with sinks."""
    if not state.without_sinks():
        return None
    return sink_keys(analysis, analysis.id, state.kind, state.layer, state.head)

"""What the switch "Without sinks" does to numbers per head, and what is said where it does nothing.

Its one meaning is K-05: what a row gave to the sinks of its head is taken out and the rest brought back to 1.
"""

from __future__ import annotations

import numpy as np
import streamlit as st

from backend.map_sizes import map_sizes
from backend.sink_free import sink_free_statistics
from backend.store import Analysis
from pages.shared.panels.head_values import HeadValues, head_values
from pages.shared.view_state import ViewState

MOST_TOKENS = 1024  # every map of the analysis is gone through once


def shown_values(state: ViewState, analysis: Analysis) -> tuple[HeadValues, str]:
    """The chosen statistic of every head as the switch says, and a sentence about it where it is on."""
    plain = head_values(analysis, state.kind, state.measure)
    if not state.without_sinks():
        return plain, ""
    longest = max(size.keys for size in map_sizes(analysis)[state.kind].values())
    if longest > MOST_TOKENS:
        return plain, (
            f"Without sinks: numbers of all heads are computed up to {MOST_TOKENS:,} tokens; this prompt has "
            f"{longest:,}, so grid, list and sentence are with sinks. Map, row, text and lines are without."
        )
    by_layer = {name: values[state.measure] for name, values in _sink_free(analysis, analysis.id, state.kind).items()}
    lists = {layer: values.tolist() for layer, values in by_layer.items()}
    return HeadValues(state.measure, lists, {}, sinkfree=True), (
        "Without sinks: what rows gave to the detected sinks of their head (importance above 0.1) is taken out and the "
        "rest brought back to 1. Heads without exact maps, and numbers about a token that is a sink, have no value."
    )


def said_with_sinks(state: ViewState, why: str) -> None:
    """Where the switch is on, says why the numbers that follow are with sinks all the same."""
    if state.without_sinks():
        st.text(f"With sinks, although they are left out elsewhere: {why}")


@st.cache_resource(max_entries=16, show_spinner="Heads without their sinks")
def _sink_free(_analysis: Analysis, id: str, kind: str) -> dict[int, dict[str, np.ndarray]]:
    return {layer.layer: sink_free_statistics(_analysis, layer.layer, kind) for layer in _analysis.layers(kind)}

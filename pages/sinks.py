"""Sinks: the tokens that hold attention without saying much. Where they are, how strong, why, what they do."""

from __future__ import annotations

import streamlit as st

from backend.map_sizes import require_tokens
from pages.shared.address import select
from pages.shared.frame import frame, opened
from pages.shared.panels.readable import readable
from pages.shared.panels.sink_data import sink_data
from pages.shared.panels.sink_do import sink_do
from pages.shared.panels.sink_hold import sink_hold
from pages.shared.panels.sink_sentences import head_count_sentence
from pages.shared.panels.sink_settings import sink_settings
from pages.shared.panels.sink_strength import sink_strength
from pages.shared.panels.sink_where import sink_where
from pages.shared.panels.sink_why import sink_why
from pages.shared.view_state import ViewState

PARTS = {
    "where": "Where are they?",
    "strong": "How strong?",
    "why": "Why?",
    "do": "What do they do?",
    "hold": "Does it hold?",
}
DRAW = {"where": sink_where, "strong": sink_strength, "why": sink_why, "do": sink_do, "hold": sink_hold}
KEY = "headwater_sinks_part"


def part_of(state: ViewState) -> str:
    """Which part of the page is shown; a choice above the first picture."""
    part = state.more("part", "where")
    part = part if part in PARTS else "where"
    st.session_state[KEY] = part
    st.segmented_control(
        "Part", list(PARTS), format_func=PARTS.get, key=KEY, on_change=_take_part, label_visibility="collapsed"
    )
    return part


def _take_part() -> None:
    chosen = st.session_state[KEY]
    select(part=None if chosen in (None, "where") else chosen, study=None)  # a study belongs to its part


state = frame("sinks", selectors=("kind", "layer", "head", "sinkfree"))
analysis = opened(state)
limits = sink_settings(state)
part = part_of(state)
with readable():
    require_tokens(analysis, state.kind)
    data = sink_data(state, analysis, limits)
    st.text(f"Which tokens hold attention? {head_count_sentence(data)}")
    DRAW[part](state, data)

"""Sinks: the tokens that hold attention without saying much. Where they are, how strong, why, what they do."""

from __future__ import annotations

import streamlit as st

from backend.map_sizes import require_tokens
from pages.shared.frame import frame, opened
from pages.shared.panels.part_choice import part_choice
from pages.shared.panels.readable import readable
from pages.shared.panels.sink_data import sink_data
from pages.shared.panels.sink_do import sink_do
from pages.shared.panels.sink_free_values import said_with_sinks
from pages.shared.panels.sink_hold import sink_hold
from pages.shared.panels.sink_sentences import head_count_sentence
from pages.shared.panels.sink_settings import sink_settings
from pages.shared.panels.sink_strength import sink_strength
from pages.shared.panels.sink_where import sink_where
from pages.shared.panels.sink_why import sink_why

PARTS = {
    "where": "Where are they?",
    "strong": "How strong?",
    "why": "Why?",
    "do": "What do they do?",
    "hold": "Does it hold?",
}
DRAW = {"where": sink_where, "strong": sink_strength, "why": sink_why, "do": sink_do, "hold": sink_hold}

state = frame("sinks", selectors=("kind", "layer", "head", "sinkfree"), parts=PARTS)
analysis = opened(state)
limits = sink_settings(state)
part = part_choice(state, PARTS, without_study=("where", "why"))
with readable():
    require_tokens(analysis, state.kind)
    data = sink_data(state, analysis, limits)
    st.text(f"Which tokens hold attention? {head_count_sentence(data)}")
    said_with_sinks(state, "this page is about them; only the budget by position can be without.")
    DRAW[part](state, data)

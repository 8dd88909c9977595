"""Heads: every head at a glance, one head large, the prompt coloured by attention."""

from __future__ import annotations

import streamlit as st

from backend.store import Analysis
from pages.shared.frame import frame, opened
from pages.shared.panels.definition import definition
from pages.shared.panels.head_grid import head_grid
from pages.shared.panels.head_map import head_map
from pages.shared.panels.head_row import head_row
from pages.shared.panels.head_sentences import head_sentence, model_sentence
from pages.shared.panels.head_tables import head_tables
from pages.shared.panels.head_values import head_values
from pages.shared.panels.ranked_heads import ranked_heads


def labels_by_side(analysis: Analysis) -> dict[str, list[str]]:
    """Display labels of the tokens, per side of the token table."""
    labels: dict[str, list[str]] = {}
    for token in analysis.tokens_list():
        labels.setdefault(token.side, []).append(token.label)
    return labels


state = frame("heads")
analysis = opened(state)
values = head_values(analysis, state.kind, state.measure)
exact = state.head in analysis.exact_heads(state.layer, state.kind)
labels = labels_by_side(analysis)

st.text(f"Where does each head look? {model_sentence(head_values(analysis, state.kind, 'first_mass'))}")
overview, large = st.columns([0.24, 0.76], gap="small")
with overview:
    head_grid(state, values)
with large:
    head_map(state, analysis, exact=exact)
st.text(head_sentence(values, state.layer, state.head))
ranking, row = st.columns([0.4, 0.6], gap="medium")
with ranking:
    ranked_heads(state, values)
with row:
    if exact:
        head_row(state, analysis, labels)
    else:
        st.text("The rows of this head were not kept exactly, so their bars cannot be drawn.")
head_tables(state, analysis, labels)
definition(values, state.layer)

"""Heads: every head at a glance, one head large, the prompt coloured by attention."""

from __future__ import annotations

import streamlit as st

from backend.store import Analysis
from pages.shared.frame import frame, more_selectors, opened
from pages.shared.head_grid import tell_labels
from pages.shared.hints import hints
from pages.shared.panels.atlas_data import labels_sentence, quick_labels
from pages.shared.panels.definition import definition
from pages.shared.panels.exact_again import exact_again
from pages.shared.panels.head_grid import head_grid
from pages.shared.panels.head_map import head_map
from pages.shared.panels.head_parts import head_parts
from pages.shared.panels.head_row import head_row
from pages.shared.panels.head_sentences import head_sentence, model_sentence
from pages.shared.panels.head_tables import head_tables
from pages.shared.panels.head_values import head_values
from pages.shared.panels.maps_beside import compare, fit_beside, pinned_heads, toggle_pin
from pages.shared.panels.ranked_heads import ranked_heads
from pages.shared.panels.readable import readable
from pages.shared.panels.sink_free_values import shown_values
from pages.shared.picture_first import after_picture
from pages.shared.view_state import ViewState

FIRST, THEN = ("kind", "layer", "head"), ("measure", "sinkfree")  # selectors before and after the picture
HINTS = (
    "Click a small map to see that head large. The arrow keys walk through heads and layers; ? lists all keys.",
    "Click a cell or a word: its row is drawn as bars and colours the text. Pointing at a cell tells its weight, its "
    "rank and what uniform attention would give.",
    "Below each picture are its table and its definition. The address holds what you see: copy the link to share it.",
)


def labels_by_side(analysis: Analysis) -> dict[str, list[str]]:
    """Display labels of the tokens, per side of the token table."""
    labels: dict[str, list[str]] = {}
    for token in analysis.tokens_list():
        labels.setdefault(token.side, []).append(token.label)
    return labels


def pictures(state: ViewState, analysis: Analysis, exact: bool) -> None:
    """What is above the fold: all heads on the left, the chosen one large."""
    overview, large = st.columns([0.24, 0.76], gap="small")
    with overview, readable():
        compare(state, analysis)
        head_grid(
            state,
            shown_values(state, analysis)[0],
            pins=pinned_heads(state, analysis),
            on_pin=lambda head: toggle_pin(state, analysis, head),
        )
    with large, readable():
        head_map(state, analysis, exact=exact)


def numbers(state: ViewState, analysis: Analysis, exact: bool) -> None:
    """The ranking of all heads and one row of the chosen one."""
    ranking, row = st.columns([0.4, 0.6], gap="medium")
    with ranking, readable():
        labels = quick_labels(state, analysis)
        if labels:
            tell_labels(state.analysis, state.kind, labels)
        ranked_heads(state, shown_values(state, analysis)[0], labels)
    with row, readable():
        if exact:
            head_row(state, analysis, labels_by_side(analysis))
        else:
            exact_again(state, analysis)


state = frame("heads", selectors=FIRST, whole=False, own=fit_beside)
analysis = opened(state)
exact = False
with readable():
    exact = state.head in analysis.exact_heads(state.layer, state.kind)

with readable():
    importance = head_values(analysis, state.kind, "first_key_importance")
    st.text(f"Where does each head look? {model_sentence(importance, sinkfree=state.without_sinks())}")
pictures(state, analysis, exact)
after_picture()
more_selectors(state, THEN)
hints("heads", HINTS)
with readable():
    values, told = shown_values(state, analysis)
    if told:
        st.text(told)
    st.text(head_sentence(values, state.layer, state.head, sinkfree=values.sinkfree))
    given = labels_sentence(state, analysis)
    if given:
        st.text(f"With sinks: {given}" if state.without_sinks() else given)
numbers(state, analysis, exact)
head_parts(state, analysis)
with readable():
    head_tables(state, analysis, labels_by_side(analysis))
with readable():
    definition(head_values(analysis, state.kind, state.measure), state.layer)

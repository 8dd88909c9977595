"""BertViz's three views of a window of the text, opened on demand."""

from __future__ import annotations

import streamlit as st

from backend.bertviz_data import VIEWS, Fed, feed
from backend.errors import NoExactMap
from backend.installed_scripts import missing
from backend.map_sizes import map_sizes
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.bertviz_view import bertviz_view, scripts_of
from pages.shared.panels.figure import figure
from pages.shared.panels.unit_sentences import share
from pages.shared.view_state import ViewState

KEY = "head_bertviz"
WORDS = {"head": "Head view", "model": "Model view", "neuron": "Neuron view"}


def head_bertviz(state: ViewState, analysis: Analysis) -> None:
    """Draws the choice and the view."""
    view = state.more("bertviz") if state.more("bertviz") in VIEWS else VIEWS[0]
    every = state.more("layers") == "all"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.session_state[KEY] = view
        st.segmented_control(
            "View",
            VIEWS,
            format_func=WORDS.get,
            key=KEY,
            required=True,
            label_visibility="collapsed",
            on_change=lambda: select(bertviz=None if st.session_state[KEY] == VIEWS[0] else st.session_state[KEY]),
        )
        if view == "model":
            st.session_state[KEY + "_every"] = every
            st.toggle(
                "All layers",
                key=KEY + "_every",
                help="More layers leave room for fewer tokens.",
                on_change=lambda: select(layers="all" if st.session_state[KEY + "_every"] else None),
            )
    absent = missing(scripts_of(view))
    if absent:
        st.text(absent)
        return
    start = state.rows[0] if state.rows is not None else 0
    try:
        fed = feed(analysis, view, state.layer, state.head, state.kind, start, every=every)
    except NoExactMap as error:
        st.text(str(error))
        return
    bertviz_view(view, fed, state.layer, state.head, f"{KEY}_picture")
    figure(f"{KEY}_picture", None, sentence=sentence(state, analysis, view, fed), offered=True)


def sentence(state: ViewState, analysis: Analysis, view: str, fed: Fed) -> str:
    """What is shown, what is not, and how to see the rest."""
    size = map_sizes(analysis)[state.kind][state.layer]
    text = f"Queries {fed.queries.start} to {fed.queries.stop - 1} of {size.queries}"
    text += f" and keys {fed.keys.start} to {fed.keys.stop - 1} of {size.keys}"
    if len(fed.queries) < size.queries or len(fed.keys) < size.keys:
        text += (
            f": as many as BertViz's {WORDS[view].lower()} draws quickly here. {share(fed.held)} of their attention is "
            "inside; the window of the map chooses another start, and Lines shows up to 400 at once"
        )
    text += "."
    if fed.missing:
        one = fed.missing == 1
        text += f" {fed.missing} head{'' if one else 's'} without exact maps {'has' if one else 'have'} no lines."
    if view == "model":
        text += f" Layers {fed.layers[0]} to {fed.layers[-1]}; a click on a head enlarges it."
    elif view == "head":
        text += " Colours on top are heads: a click shows or hides one, a double click shows only that one."
    else:
        text += (
            " Queries and keys are those that were stored, after positions were added; q·k is before the model's own "
            "scale and masks, the last column is the model's weights. The + beside a token opens its numbers."
        )
    return text

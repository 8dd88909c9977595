"""The column on the left: analysis, kind, layer, head, measure, look. Each choice is written into the view at once."""

from __future__ import annotations

import streamlit as st

from backend.store import Entry
from pages.shared.address import select
from pages.shared.view_state import PALETTES, THEMES, Outline, ViewState

ALL = ("kind", "layer", "head", "measure")
KEY = "headwater_choose_"


def choice_of_analysis(state: ViewState, entries: list[Entry], shown: Entry) -> None:
    """Draws the list of analyses. `shown` is the open one, which may be reached by its link alone."""
    titles = {entry.id: entry.title for entry in (*entries, shown)}
    key = KEY + "analysis"
    st.session_state[key] = state.analysis
    with st.sidebar:
        st.selectbox("Analysis", list(titles), key=key, format_func=titles.get, on_change=_change_analysis)


def selectors(state: ViewState, has: Outline, wanted: tuple[str, ...] = ALL) -> None:
    """Draws the selectors that a page wants. A kind is offered only where there is more than one.

    "sinkfree" offers the view without sinks, off until chosen; "sinkfree_on" the same, on until chosen; "look" palette
    and theme."""
    with st.sidebar:
        layers = has.sites[state.kind]
        if "kind" in wanted and len(has.sites) > 1:
            _choice("Kind", "kind", list(has.sites), state.kind)
        if "layer" in wanted:
            _number("Layer", "layer", sorted(layers), state.layer)
        if "head" in wanted:
            _number("Head", "head", list(range(layers[state.layer].heads)), state.head)
        if "measure" in wanted:
            names = sorted(has.measures)
            _choice("Measure", "measure", names, state.measure, lambda name: name.replace("_", " "))
        if "sinkfree" in wanted or "sinkfree_on" in wanted:
            _sink_free(state, default="sinkfree_on" in wanted)
        if "look" in wanted:
            _look(state)


def _look(state: ViewState) -> None:
    with st.expander("Look"):
        _choice("Palette", "palette", list(PALETTES), state.palette)
        _choice("Theme", "theme", list(THEMES), state.theme, lambda name: "as the browser" if name == "auto" else name)


def _change_analysis() -> None:
    """Another text has other positions: the window and the selected cell belong to the old one."""
    select(analysis=st.session_state[KEY + "analysis"], rows=None, columns=None, query=None, key=None)


def _choice(label: str, name: str, options: list[str], value: str, show=str) -> None:
    st.session_state[KEY + name] = value
    st.selectbox(label, options, key=KEY + name, format_func=show, on_change=_take, args=(name,))


def _number(label: str, name: str, numbers: list[int], value: int) -> None:
    """A stepper where the numbers follow each other, a list where they do not (hybrid models)."""
    key = KEY + name
    st.session_state[key] = value
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        text = f"{label} ({numbers[0]} to {numbers[-1]})"
        st.number_input(text, numbers[0], numbers[-1], step=1, key=key, on_change=_take, args=(name,))
    else:
        st.selectbox(label, numbers, key=key, on_change=_take, args=(name,))


def _sink_free(state: ViewState, default: bool) -> None:
    key = KEY + "sinkfree"
    st.session_state[key] = state.without_sinks(default)
    words = (
        "What each row gave to the sinks of its head is taken out and the rest is brought back to 1. What cannot be "
        "shown so says that it is with sinks."
    )
    st.toggle("Without sinks", key=key, help=words, on_change=_take_sink_free, args=(default,))


def _take_sink_free(default: bool) -> None:
    chosen = st.session_state[KEY + "sinkfree"]
    select(sinkfree=None if chosen == default else ("on" if chosen else "off"))


def _take(name: str) -> None:
    select(**{name: st.session_state[KEY + name]})

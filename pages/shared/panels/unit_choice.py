"""Token, word, sentence or segment; special tokens shown or left out; both in the address."""

from __future__ import annotations

import streamlit as st

from backend.store import Analysis
from backend.unit_attention import Units, units_of
from backend.words import UNITS
from pages.shared.address import select
from pages.shared.view_state import ViewState


def unit_of(state: ViewState) -> str:
    """The unit of the address."""
    unit = state.more("unit")
    return unit if unit in UNITS else UNITS[0]


def unit_choice(state: ViewState, key: str) -> None:
    """Draws the choice of the unit. To a unit goes the sum over its tokens, from a unit the mean over its rows."""
    st.session_state[key] = unit_of(state)
    st.segmented_control(
        "Attention between",
        UNITS,
        format_func=lambda unit: f"{unit}s",
        key=key,
        required=True,
        help="To a word, sentence or segment goes the sum over its tokens; from one comes the mean over its rows.",
        on_change=lambda: select(unit=None if st.session_state[key] == UNITS[0] else st.session_state[key]),
    )


def special_choice(state: ViewState, key: str) -> bool:
    """Draws the switch that leaves special tokens out; returns whether it is on."""
    st.session_state[key] = state.more("special") == "hide"
    st.toggle(
        "Leave special tokens out",
        key=key,
        help="They are taken away by their place: all other weights stay what they are, nothing is scaled up.",
        on_change=lambda: select(special="hide" if st.session_state[key] else None),
    )
    return state.more("special") == "hide"


@st.cache_resource(max_entries=64, show_spinner=False)
def _units(_analysis: Analysis, id: str, kind: str, layer: int, unit: str) -> Units:
    return units_of(_analysis, kind, layer, unit)


def units_here(state: ViewState, analysis: Analysis) -> Units:
    """The units of the address, cut once per analysis."""
    return _units(analysis, analysis.id, state.kind, state.layer, unit_of(state))

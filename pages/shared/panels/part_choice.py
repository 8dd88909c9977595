"""The parts of a page, one shown at a time; which one is in the address (`part`).

    state = frame("sinks", parts=PARTS)
    part = part_choice(state, PARTS)

`frame` has made `part` one that the page has; the first of them is not written into the address.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from pages.shared.address import select
from pages.shared.view_state import ViewState

KEY = "headwater_part"


def part_choice(state: ViewState, parts: Mapping[str, str]) -> str:
    """Draws the row of parts (name -> what it is called); returns the name of the one to draw."""
    first = next(iter(parts))
    part = state.more("part", first)
    st.session_state[KEY] = part
    st.segmented_control(
        "Part",
        list(parts),
        format_func=parts.get,
        key=KEY,
        on_change=_take,
        args=(first,),
        label_visibility="collapsed",
    )
    return part


def _take(first: str) -> None:
    chosen = st.session_state[KEY]
    select(part=None if chosen in (None, first) else chosen, study=None)  # a study belongs to its part

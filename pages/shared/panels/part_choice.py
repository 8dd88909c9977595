"""The parts of a page, one shown at a time; which one is in the address (`part`).

    state = frame("sinks", parts=PARTS)
    part = part_choice(state, PARTS, without_study=("where", "why"))

`frame` has made `part` one that the page has; the first of them is not written into the address.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import streamlit as st

from pages.shared.address import select
from pages.shared.panels.page_study import stray_study
from pages.shared.view_state import ViewState

KEY = "headwater_part"


def part_choice(state: ViewState, parts: Mapping[str, str], *, without_study: Collection[str] = ()) -> str:
    """Draws the row of parts (name -> what it is called); returns the name of the one to draw.

    without_study: the parts that show no study; there one of the address is said to be elsewhere."""
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
    if part in without_study:
        stray_study(state, f"“{parts[part]}” shows no study")
    return part


def _take(first: str) -> None:
    chosen = st.session_state[KEY]
    select(part=None if chosen in (None, first) else chosen, study=None)  # a study belongs to its part

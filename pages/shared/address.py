"""Keeps the browser's address and the page's choices the same thing.

One ViewState per browser tab lives in the session. A run starts by reading the address. It wins where this tab did not
write it itself (a link, another page) and where the person went back or forward. Otherwise the session wins: a click
that was sent before the browser had taken over the last address still carries the one before, and must not undo it.
"""

from __future__ import annotations

from dataclasses import replace

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.shared.view_state import ViewState, parse

STATE = "headwater_view"  # the ViewState of this tab
WRITTEN = "headwater_written"  # the last (page, query) pairs that this tab read or wrote, newest last
CHANGES = "headwater_changes"  # choices made by callbacks since the last run
REMEMBERED = 32


def select(**changes: object) -> None:
    """Changes the view: `select(layer=3, head=5)`. The run after a callback shows it; elsewhere call st.rerun().

    Names are those of ViewState; any other name is a parameter that the page adds (None removes it)."""
    st.session_state[CHANGES] = {**st.session_state.get(CHANGES, {}), **changes}


def current() -> ViewState:
    """The view that this tab asked for last; for a callback, which may run before that view is drawn."""
    return st.session_state[STATE]


def read(page: str) -> tuple[ViewState, list[str]]:
    """The view that is asked for, and what of the address could not be read."""
    here = (page, st.query_params.to_dict())
    notices: list[str] = []
    if _address_wins(here):
        state, notices = parse(here[1])
    else:
        state = st.session_state[STATE]
    changes = st.session_state.pop(CHANGES, {})
    own = {name: value for name, value in changes.items() if name in ViewState.__dataclass_fields__}
    more = {name: value for name, value in changes.items() if name not in own}
    state = replace(state, **own).with_more(**more)
    st.session_state[STATE] = state  # at once: a run that the next choice cuts short must not lose this one
    return state, notices


def write(page: str, state: ViewState, query: dict[str, str]) -> None:
    """Remembers the view and puts it into the address where that differs.

    Remembered first: the next choice may cut this run short while the address is on its way to the browser."""
    st.session_state[STATE] = state
    written = st.session_state.get(WRITTEN, [])
    if not written or written[-1] != (page, query):
        st.session_state[WRITTEN] = [*written, (page, query)][-REMEMBERED:]
    if st.query_params.to_dict() != query:
        st.query_params.from_dict(query)


def _address_wins(here: tuple[str, dict[str, str]]) -> bool:
    written = st.session_state.get(WRITTEN, [])
    if not written or written[-1][0] != here[0]:
        return True
    context = get_script_run_ctx()
    return here not in written or (context is not None and context.is_history_navigation and here != written[-1])

"""Picture first: what lies below it is computed and sent once the picture is on the screen.

    announce("what is shown")     while the picture is drawn: its name, which the browser tells when it is painted
    after_picture()               in the page, between the picture and the rest

Charts bring a large script along, and their data keeps the server busy; beside them the picture would come later.
"""

from __future__ import annotations

import secrets
import time

import streamlit as st

from backend.painted import painted

KEY = "headwater_picture"
FIRST, NEXT = 2.0, 0.6  # longest wait in seconds: for a page that is loaded, for another picture on it
STEP = 0.03


def announce(what: str) -> str:
    """The name of the picture that shows `what`; a new one only where something else was shown before."""
    last = st.session_state.get(KEY)
    if last is None or last["what"] != what:
        wait = FIRST if last is None else NEXT
        st.session_state[KEY] = {"what": what, "name": secrets.token_urlsafe(12), "wait": wait}
    return st.session_state[KEY]["name"]


def after_picture() -> None:
    """Returns once the browser has painted the announced picture, at once where there is no browser or no news.

    A choice that is made in the meantime ends the run here, as it would anywhere else."""
    picture = st.session_state.get(KEY)
    if picture is None or not picture["wait"] or not st.context.headers:
        return
    end = time.monotonic() + picture["wait"]
    while time.monotonic() < end and not painted.wait(picture["name"], STEP):
        picture = st.session_state[KEY]  # reading the state is where Streamlit ends a run that is no longer wanted
    picture["wait"] = 0.0

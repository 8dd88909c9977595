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
REMEMBERED = 64  # pictures of one tab


def announce(what: str) -> str:
    """The name of the picture that shows `what`: the same as long as the tab is open."""
    pictures = st.session_state.setdefault(KEY, {"names": {}, "now": None, "wait": FIRST})
    if pictures["now"] != what:
        pictures["wait"] = FIRST if pictures["now"] is None else NEXT
        pictures["now"] = what
    names = pictures["names"]
    names.setdefault(what, secrets.token_urlsafe(12))
    while len(names) > REMEMBERED:
        del names[next(iter(names))]
    return names[what]


def after_picture() -> None:
    """Returns once the browser has painted the announced picture, at once where there is no browser or no news.

    A choice that is made in the meantime ends the run here, as it would anywhere else."""
    pictures = st.session_state.get(KEY)
    if pictures is None or not pictures["wait"] or not st.context.headers:
        return
    name, end = pictures["names"][pictures["now"]], time.monotonic() + pictures["wait"]
    while time.monotonic() < end and not painted.wait(name, STEP):
        pictures = st.session_state[KEY]  # reading the state is where Streamlit ends a run that is no longer wanted
    pictures["wait"] = 0.0

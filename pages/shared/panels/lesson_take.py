"""What can be taken along: the link, a hand-out that opens offline, and a frame for a course page."""

from __future__ import annotations

from html import escape
from urllib.parse import urlencode

import streamlit as st

from backend.errors import HeadwaterError
from pages.shared.exports.lesson_html import lesson_html
from pages.shared.lessons.place import Place
from pages.shared.opened import owner, shelf
from pages.shared.view_state import ViewState, to_query

LEAST, MOST = 320, 2000  # pixels of a frame


def lesson_take(state: ViewState, place: Place) -> None:
    """Draws the hand-out's button and the frame's code."""
    name = place.lesson.name
    key = f"headwater_handout_{name}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if key in st.session_state:
            st.download_button(
                "Save the hand-out", st.session_state[key], f"{name}.html", "text/html", key=f"{key}_save"
            )
        else:
            st.button("Make a hand-out of this lesson", key=f"{key}_make", on_click=_make, args=(place, key))
        width = st.number_input("Width of a frame", LEAST, MOST, 1000, step=20, key="headwater_embed_width")
        height = st.number_input("Height", LEAST, MOST, 640, step=20, key="headwater_embed_height")
    if f"{key}_trouble" in st.session_state:
        st.text(st.session_state.pop(f"{key}_trouble"))
    st.text("The hand-out is one file. It holds the whole lesson with its maps, and opens without a network.")
    st.text("A course page shows this step with:")
    st.text(embed_code(state, int(width), int(height)))


def embed_code(state: ViewState, width: int, height: int) -> str:
    """The element that shows the step on another page, for the outside address that the browser used."""
    address = (st.context.url or "").split("?")[0]
    source = escape(f"{address}?{urlencode({**to_query(state), 'embed': 'true'})}")
    return f'<iframe src="{source}" width="{width}" height="{height}" title="Headwater"></iframe>'


def _make(place: Place, key: str) -> None:
    """Writes the hand-out; a callback."""
    try:
        st.session_state[key] = lesson_html(place.lesson, lambda id: shelf().open(id, owner()).analysis)
    except HeadwaterError as error:
        st.session_state[f"{key}_trouble"] = str(error)

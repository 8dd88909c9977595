"""One step of a lesson: its sentences on the left, its picture on the right, what belongs to it below."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from backend.errors import HeadwaterError
from backend.shelf import Opened
from pages.shared.lessons.place import PARAMETERS, Place, place_of, view_of
from pages.shared.opened import outline, owner, shelf
from pages.shared.panels.lesson_numbers import lesson_numbers
from pages.shared.panels.lesson_picture import lesson_picture
from pages.shared.panels.lesson_text import lesson_text
from pages.shared.panels.readable import readable
from pages.shared.view_state import ViewState, fit, to_query

STYLE = Path(__file__).parent.parent / "lessons" / "lessons.css"


def showing(state: ViewState) -> tuple[Opened | None, dict[str, str]]:
    """The analysis of the step that is open, and the parameters under which other pages show the same."""
    place = place_of(state)
    if place is None:
        return None, to_query(state.with_more(**dict.fromkeys(PARAMETERS)))
    view = view_of(state, place.step)
    try:
        found = shelf().open(view.analysis, owner())
        outline(found.analysis)
    except HeadwaterError:  # the page says it where the picture would be
        return None, {}
    view, _ = fit(view, outline(found.analysis))
    return found, to_query(ViewState(**{**vars(view), "extra": ()}))


def lesson_page(state: ViewState, place: Place) -> None:
    """Draws the step."""
    st.html(STYLE)
    words, picture = st.columns([0.32, 0.68], gap="medium")
    with words:
        lesson_text(place)
    with picture, readable():
        view = view_of(state, place.step)
        analysis = shelf().open(view.analysis, owner()).analysis
        view, _ = fit(view, outline(analysis))
        with st.container(key="headwater_lesson_picture"):
            lesson_picture(place.step, view, analysis)
    with readable():
        lesson_numbers(place, view)

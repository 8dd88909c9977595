"""One step of a lesson: its sentences on the left, its picture on the right, what belongs to it below."""

from __future__ import annotations

import streamlit as st

from backend.errors import HeadwaterError
from backend.shelf import Opened
from pages.shared import lessons
from pages.shared.lessons.place import PARAMETERS, Place, place_of, view_of
from pages.shared.opened import outline, owner, shelf
from pages.shared.panels.lesson_below import lesson_below
from pages.shared.panels.lesson_notes import lesson_notes
from pages.shared.panels.lesson_picture import lesson_picture
from pages.shared.panels.lesson_text import follow, lesson_text, move
from pages.shared.panels.readable import readable
from pages.shared.presenter import ROLES, presenter
from pages.shared.view_state import ViewState, fit, to_query


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
    """Draws the step, or its notes in the presenter's own window."""
    role = state.more("present")
    st.html(lessons.HERE / "lessons.css")
    if role in ROLES:
        _presenter(place, role, black=state.theme == "projector")
    if role == ROLES[1]:
        lesson_notes(place)
        return
    words, picture = st.columns([0.36, 0.64] if role in ROLES else [0.32, 0.68], gap="medium")
    with words, st.container(key="headwater_words"):
        lesson_text(place, brief=role in ROLES)
    with picture, readable():
        view = view_of(state, place.step)
        analysis = shelf().open(view.analysis, owner()).analysis
        view, _ = fit(view, outline(analysis))
        with st.container(key="headwater_lesson_picture"):
            if place.drawn:
                lesson_picture(place.step, view, analysis)
            else:
                st.text("The picture comes with the answer. What do you expect?")
        if role not in ROLES:
            with st.container(key="headwater_below"), readable():
                lesson_below(state, place, view, analysis)


def _presenter(place: Place, role: str, *, black: bool) -> None:
    with st.container(key="headwater_presenter_bar"):
        presenter(
            role=role,
            lesson=place.lesson.name,
            step=place.number,
            steps=len(place.lesson.steps),
            shown=place.shown,
            minutes=place.lesson.minutes,
            spot=place.step.spot if place.drawn else {},
            black=black,
            on_move=move,
            on_follow=lambda step, shown: follow(place, step, shown),
        )

"""What belongs to a step, on demand: its numbers, its words, the text to change, and what can be taken along."""

from __future__ import annotations

import streamlit as st

from backend.settings import READ_ONLY
from backend.store import Analysis
from pages.shared.lessons.place import Place
from pages.shared.panels.lesson_numbers import lesson_numbers, terms_of
from pages.shared.panels.lesson_take import lesson_take
from pages.shared.panels.lesson_try import TRIED, lesson_try
from pages.shared.panels.terms import definitions
from pages.shared.view_state import ViewState

NUMBERS, WORDS, TRY, TAKE, SOURCES = (
    "Where the numbers come from",
    "What the words mean",
    "Try it yourself",
    "Take it with you",
    "Sources",
)
KEY = "headwater_lesson_below"


def lesson_below(state: ViewState, place: Place, view: ViewState, analysis: Analysis) -> None:
    """Draws the choice and what was chosen. A changed text in the address is shown at once."""
    offered = [NUMBERS, WORDS] if terms_of(place) else []
    runs = READ_ONLY.text() != "1" and place.step.view.show in ("map", "row", "heads")
    offered += [TRY] if runs else []
    offered += [TAKE, SOURCES]
    if runs and state.more(TRIED) and KEY not in st.session_state:
        st.session_state[KEY] = TRY
    chosen = st.pills("Below the picture", offered, key=KEY, label_visibility="collapsed")
    if chosen == NUMBERS:
        lesson_numbers(place, view)
    elif chosen == WORDS:
        definitions(terms_of(place))
    elif chosen == TRY:
        lesson_try(state, view, analysis)
    elif chosen == TAKE:
        lesson_take(state, place)
    elif chosen == SOURCES:
        for source in place.lesson.sources:
            st.text(source)

"""Where the numbers of a step come from: each with its query on the bundled analysis."""

from __future__ import annotations

import streamlit as st

from pages.shared.lessons.place import Place
from pages.shared.lessons.text import numbers_in
from pages.shared.view_state import ViewState


def lesson_numbers(place: Place, view: ViewState) -> None:
    """Lists the numbers that stand on the page now."""
    st.text(f"Each query reads the analysis {view.analysis}. A SELECT can be run on the page SQL.")
    for name, written in _shown(place):
        st.text(f"{written}    {place.step.numbers[name].query}")


def terms_of(place: Place) -> list[str]:
    """The glossary's names for the numbers that stand on the page now."""
    return sorted({place.step.numbers[name].term for name, _ in _shown(place)})


def _shown(place: Place) -> list[tuple[str, str]]:
    step = place.step
    return numbers_in(f"{step.text}\n\n{step.reveal}" if place.revealed else step.text)

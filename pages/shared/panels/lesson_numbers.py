"""Where the numbers of a step come from: each with its query on the bundled analysis, and a way to run it."""

from __future__ import annotations

import streamlit as st

from pages.shared.lessons.place import Place
from pages.shared.lessons.text import numbers_in
from pages.shared.panels.terms import definitions
from pages.shared.view_state import ViewState


def lesson_numbers(place: Place, view: ViewState) -> None:
    """Two things on demand: queries and definitions."""
    step = place.step
    shown = f"{step.text}\n\n{step.reveal}" if place.revealed else step.text
    numbers = numbers_in(shown)
    terms = sorted({step.numbers[name].term for name, _ in numbers})
    offered = (["Where the numbers come from"] if numbers else []) + (["What the words mean"] if terms else [])
    offered += ["Sources"] if place.lesson.sources else []
    if not offered:
        return
    chosen = st.pills("Below the picture", offered, key="headwater_lesson_below", label_visibility="collapsed")
    if chosen == "Where the numbers come from":
        st.text(f"Each query reads the analysis {view.analysis}. Paste it on the page SQL to change it.")
        for name, written in numbers:
            st.text(f"{written}    {step.numbers[name].query}")
    elif chosen == "What the words mean":
        definitions(terms)
    elif chosen == "Sources":
        for source in place.lesson.sources:
            st.text(source)

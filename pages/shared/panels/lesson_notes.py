"""What only the presenter sees: notes, the answer, and what comes next."""

from __future__ import annotations

import streamlit as st

from pages.shared.lessons.place import Place
from pages.shared.panels.lesson_text import sentences


def lesson_notes(place: Place) -> None:
    """Draws the window with the notes; it follows the one that presents."""
    step, lesson = place.step, place.lesson
    st.subheader(step.title, anchor=False)
    with st.container(key="headwater_notes"):
        st.text(" ".join(step.notes.split()) or "There are no notes for this step.")
    sentences(step.text, step)
    if step.ask:
        st.text(f"{step.ask} The answer: {step.choices[step.answer]}.")
    if step.reveal:
        st.caption("Shown by now" if place.revealed else "Not shown yet")
        sentences(step.reveal, step)
    following = lesson.steps[place.number].title if place.number < len(lesson.steps) else "the end"
    st.caption(f"Next: {following}")

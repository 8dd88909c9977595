"""The lessons there are."""

from __future__ import annotations

import streamlit as st

from pages.shared import lessons
from pages.shared.address import select
from pages.shared.lessons import Lesson
from pages.shared.lessons.place import PARAMETERS, elsewhere


def lesson_list() -> None:
    """Draws one card per lesson."""
    st.html(lessons.HERE / "lessons.css")
    st.text(
        "What can be seen in attention? Each lesson takes a few minutes. It shows a picture, asks what you expect, and "
        "then says what the picture shows."
    )
    for row in range(0, len(lessons.all()), 2):
        for place, lesson in zip(st.columns(2, gap="small"), lessons.all()[row : row + 2], strict=False):
            with place, st.container(border=True, key=f"headwater_lesson_{lesson.name}", height="stretch"):
                st.subheader(f"{lessons.all().index(lesson) + 1}. {lesson.title}", anchor=False)
                st.text(lesson.question)
                with st.container(horizontal=True, vertical_alignment="center"):
                    label = f"Begin: {lesson.title}"
                    st.button(label, key=f"headwater_begin_{lesson.name}", on_click=begin, args=(lesson,))
                    st.caption(f"{len(lesson.steps)} steps, about {lesson.minutes} minutes")


def begin(lesson: Lesson) -> None:
    """Goes to the first step; a callback."""
    select(**{**elsewhere(), **dict.fromkeys(PARAMETERS), "lesson": lesson.name})

"""Lessons: a few steps each, with a picture, a prediction and what the picture says. The link holds the progress."""

from __future__ import annotations

from pages.shared.frame import plain_frame
from pages.shared.lessons.place import fitted, place_of
from pages.shared.panels.lesson_list import lesson_list
from pages.shared.panels.lesson_page import lesson_page, showing

state = plain_frame("lessons", fitted, showing)
place = place_of(state)
if place is None:
    lesson_list()
else:
    lesson_page(state, place)

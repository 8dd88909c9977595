"""The lessons: one Markdown file each in this folder, which is their registry.

A file is `<number>_<name>.md`; the number is its place in the list, the name stands in the address. How such a file is
written: docs/teaching.md. Nothing here knows Streamlit.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pages.shared.lessons.lesson import Lesson, Number, Step, View, read_lesson

__all__ = ["Lesson", "Number", "Step", "View", "all", "find"]

HERE = Path(__file__).parent


@cache
def all() -> tuple[Lesson, ...]:
    """Every lesson, in the order of the list."""
    return tuple(read_lesson(path) for path in sorted(HERE.glob("[0-9][0-9]_*.md")))


def find(name: str) -> Lesson | None:
    """The lesson of that name."""
    return next((lesson for lesson in all() if lesson.name == name), None)

"""Checks the numbers of the lessons against the bundled analyses: `python -m tools.lessons [--write]`.

After the bundled analyses were made again, --write puts what the queries give into the sentences. Read them afterwards:
a changed number may make its sentence untrue.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backend.settings import bundled_folder
from backend.store import Library
from pages.shared import lessons
from pages.shared.lessons import Lesson, Step
from pages.shared.lessons.numbers import holds, written
from pages.shared.lessons.text import numbers_in


@dataclass(frozen=True)
class Claim:
    """A number as it stands in a sentence, and what its query gives."""

    lesson: Lesson
    step: Step
    name: str
    said: str
    found: str


def claims(library: Library, lesson: Lesson) -> Iterator[Claim]:
    """Every number of a lesson."""
    for step in lesson.steps:
        analysis = library.open(step.view.analysis)
        for name, said in numbers_in(f"{step.text}\n\n{step.reveal}"):
            yield Claim(lesson, step, name, said, written(analysis, step.numbers[name]))


def untrue_answers(library: Library, lesson: Lesson) -> Iterator[Step]:
    """The steps whose check does not give true."""
    for step in lesson.steps:
        if step.check and not holds(library.open(step.view.analysis), step):
            yield step


def main(write: bool) -> int:
    """Says what does not hold; how many there are."""
    library, wrong = Library(bundled_folder(), read_only=True), 0
    for lesson in lessons.all():
        path = next(lessons.HERE.glob(f"[0-9][0-9]_{lesson.name}.md"))
        text = Path(path).read_text("utf-8")
        for claim in claims(library, lesson):
            if claim.said != claim.found:
                wrong += 1
                print(f"{path.name}, {claim.step.title}: {claim.name} is {claim.found}, written {claim.said}")
                start = text.index(f"# {claim.step.title}\n")
                old, new = (f"[{value}]({claim.name})" for value in (claim.said, claim.found))
                text = text[:start] + text[start:].replace(old, new, 1)
        for step in untrue_answers(library, lesson):
            wrong += 1
            print(f"{path.name}, {step.title}: the check of the answer does not give true")
        if write:
            path.write_text(text, "utf-8")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main("--write" in sys.argv) else 0)

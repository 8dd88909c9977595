"""A lesson as it is read from its file: facts in YAML, sentences in Markdown.

---
title, question, minutes, analysis, sources      what the list shows, and which bundled analysis is read
---
# Title of a step
```yaml
show: map            what is drawn, see VIEWS; its parameters beside it
look: ...            what to look at
spot: {rows: [a, b], columns: [c, d]}   the part of the map on which the presenter's spotlight begins
ask, choices, answer, check     the prediction, and the SELECT that must give true
numbers: {name: {sql: ..., as: percent, term: ...}}
```
Sentences. A number is written [38 %](name).
## Reveal
## Notes             for the presenter, drawn as plain text: two to four sentences, no digits
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

VIEWS = ("map", "heads", "pair", "row", "bars")
FACTS = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)
HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
SETTINGS = re.compile(r"\s*```yaml\n(.*?)\n```\n", re.DOTALL)
PART = re.compile(r"^## (Reveal|Notes)\s*$", re.MULTILINE)


class LessonError(ValueError):
    """A lesson's file is not written as it should be; said with the file and the step."""


@dataclass(frozen=True)
class Number:
    """A number of a sentence: what gives it on the step's analysis, and how it is written.

    Tables are asked by SQL. What a window of a map holds is in no table: it is asked for by its rows and columns.
    """

    form: str  # pages/shared/lessons/numbers.py
    term: str  # its entry in the glossary
    sql: str = ""
    mass: dict[str, Any] = field(default_factory=dict)  # pages/shared/lessons/masses.py

    @property
    def query(self) -> str:
        """What is asked, for a person."""
        return self.sql or ", ".join(f"{name} {value}" for name, value in self.mass.items())


@dataclass(frozen=True)
class View:
    """What a step draws, as parameters of an address; None = the page's own default."""

    show: str = "map"
    analysis: str = ""
    kind: str | None = None
    layer: int | None = None
    head: int | None = None
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    query: int | None = None
    key: int | None = None
    measure: str | None = None
    scale: str | None = None
    how: str | None = None
    hide: bool = False
    direction: str | None = None
    later: bool = False  # drawn with the answer, because it gives it away
    beside: tuple[int, int] | None = None  # of "pair": layer and head of the second map
    chart: dict[str, Any] = field(default_factory=dict)  # of "bars": title, and sql or segments


@dataclass(frozen=True)
class Step:
    """One step of a lesson."""

    title: str
    view: View
    look: str
    text: str
    ask: str = ""
    choices: tuple[str, ...] = ()
    answer: int = 0  # index into the choices
    check: str | dict[str, Any] = ""  # makes sure of the answer: see `holds` in numbers.py
    reveal: str = ""
    notes: str = ""
    numbers: dict[str, Number] = field(default_factory=dict)
    spot: dict[str, list[int]] = field(
        default_factory=dict
    )  # rows and columns of its map, each [first, behind the last]
    page: dict[str, Any] = field(default_factory=dict)  # where to go on: name of a page, its label, parameters

    @property
    def hides(self) -> bool:
        """Whether something is shown only when asked for."""
        return bool(self.reveal)


@dataclass(frozen=True)
class Lesson:
    """One lesson."""

    name: str
    title: str
    question: str
    minutes: int
    analysis: str
    steps: tuple[Step, ...]
    sources: tuple[str, ...] = ()
    tries: dict[str, str] = field(default_factory=dict)  # "Try it yourself": text, old and new word


def read_lesson(path: Path) -> Lesson:
    """The lesson in a file; LessonError with what is wrong in it."""
    text = path.read_text("utf-8")
    start = FACTS.match(text)
    if start is None:
        raise LessonError(f"{path.name}: expected facts in YAML between two lines of ---.")
    facts = yaml.safe_load(start[1])
    headings = list(HEADING.finditer(text, start.end()))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    analysis = facts["analysis"]
    try:
        steps = tuple(
            read_step(heading[1], text[heading.end() : end], analysis)
            for heading, end in zip(headings, ends, strict=True)
        )
        return Lesson(path.stem[3:], steps=steps, **{**facts, "sources": tuple(facts.get("sources", ()))})
    except (TypeError, KeyError, LessonError) as error:
        raise LessonError(f"{path.name}: {error}") from None


def read_step(title: str, body: str, analysis: str) -> Step:
    """One step, from what stands below its heading."""
    settings = SETTINGS.match(body)
    if settings is None:
        raise LessonError(f"step {title!r}: expected its settings in a block of yaml.")
    given = yaml.safe_load(settings[1])
    pieces = PART.split(body[settings.end() :])
    parts = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    numbers = {
        name: Number(one["as"], one["term"], " ".join(one.get("sql", "").split()), one.get("mass", {}))
        for name, one in given.pop("numbers", {}).items()
    }
    own = {f.name for f in fields(View)} - {"chart"}
    view = {name: given.pop(name) for name in list(given) if name in own}
    view |= {name: tuple(view[name]) for name in ("rows", "columns", "beside") if name in view}
    view = View(**{"analysis": analysis, **view}, chart=given.pop("chart", {}))
    if view.show not in VIEWS:
        raise LessonError(f"step {title!r}: show is one of {', '.join(VIEWS)}, not {view.show!r}.")
    spot = given.get("spot")
    if spot is not None and (view.show == "bars" or sorted(spot) != ["columns", "rows"]):
        raise LessonError(f"step {title!r}: spot is rows and columns of a map, not {spot!r}.")
    choices = tuple(str(choice) for choice in given.pop("choices", ()))
    answer = given.pop("answer", None)
    if choices and str(answer) not in choices:
        raise LessonError(f"step {title!r}: the answer {answer!r} is none of its choices.")
    return Step(
        title=title,
        view=view,
        text=pieces[0].strip(),
        reveal=parts.get("Reveal", "").strip(),
        notes=parts.get("Notes", "").strip(),
        numbers=numbers,
        choices=choices,
        answer=choices.index(str(answer)) if choices else 0,
        **given,
    )

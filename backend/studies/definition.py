"""What a study is: several runs that answer one question, with everything that is needed to run and to read it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from backend.isolated import isolated
from backend.models import LoadedModel
from backend.store import Library

Row = dict[str, int | float | str | None]
LONGEST_SUBJECT = 40  # characters of a title
TYPES = {"int": pa.int64(), "double": pa.float64(), "text": pa.string()}


@dataclass(frozen=True)
class Column:
    """One column of a table that a study declares."""

    type: str  # "int", "double" or "text"
    meaning: str  # one sentence fragment, with the unit


Columns = Mapping[str, Column]


@dataclass(frozen=True)
class Plan:
    """What a study will take, before it starts."""

    runs: int
    n_tokens: int  # of the longest run
    seconds: float
    memory_mb: float  # beside the model itself
    disk_mb: float
    sentence: str


@dataclass(frozen=True)
class RunResult:
    """What one run of a study found. It goes to disk as JSON: numbers, texts and None; undefined is None, not NaN."""

    rows: dict[str, list[Row]]
    members: tuple[str, ...] = ()  # ids of the analyses that this run kept


@dataclass(frozen=True)
class Surroundings:
    """Where a run works."""

    library: Library
    visibility: str = "link"
    owner: str | None = None
    made_of: tuple[str, ...] = ()  # of the analyses that a run keeps: the study itself, and what it was made of
    stop_if_cancelled: Callable[[], None] = field(default=lambda: None)  # raises Cancelled; call it between layers
    earlier: Mapping[int, RunResult] = field(default_factory=dict)  # the runs before this one, by number


class StudyDefinition(ABC):
    """Base of all studies. One instance per file of backend/studies, under the name STUDY.

    A run is the smallest part that is kept: its result is on disk before the next begins, so a kill loses at most one.
    """

    title: ClassVar[str]
    question: ClassVar[str]  # what the study answers, one sentence
    Parameters: ClassVar[type]  # a frozen dataclass of JSON values with a default for each
    tables: ClassVar[Mapping[str, Columns]]  # what is stored
    version: ClassVar[int] = 1  # one more whenever equal parameters give other numbers

    @property
    def name(self) -> str:
        """The name of the file."""
        return type(self).__module__.rpartition(".")[2]

    def subject(self, parameters: Any) -> str:
        """What tells this study from others of its kind in a list, such as how its prompt begins; may be empty."""
        return ""

    def title_of(self, parameters: Any) -> str:
        """The title of a study with these parameters, without the model."""
        subject = " ".join(self.subject(parameters).split())
        short = subject if len(subject) <= LONGEST_SUBJECT else f"{subject[: LONGEST_SUBJECT - 1].rstrip()}…"
        return f"{self.title} · {isolated(short)}" if short else self.title

    @abstractmethod
    def plan(self, model: LoadedModel, parameters: Any) -> Plan:
        """What it will take. Runs nothing. Refused where the parameters do not fit the model."""

    @abstractmethod
    def run(self, model: LoadedModel, parameters: Any, number: int, where: Surroundings) -> RunResult:
        """One run, 0 <= number < plan.runs. Depends on nothing but its arguments, `where.earlier` among them."""

    def leave(self, model: LoadedModel) -> None:
        """Frees what runs kept in memory for those that follow. Called when the work ends, however it ends."""
        return

    @abstractmethod
    def combine(self, parameters: Any, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        """The declared tables from the results of all runs, in their order."""


def as_arrow(columns: Columns, rows: Sequence[Row]) -> pa.Table:
    """Rows of one declared table. ValueError where a row has other columns than were declared."""
    for row in rows:
        if row.keys() != columns.keys():
            raise ValueError(f"a study's row: expected the columns {list(columns)}, got {list(row)}")
    names = {name: TYPES[column.type] for name, column in columns.items()}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in names.items()})

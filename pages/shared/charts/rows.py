"""The rows that a chart draws, kept apart from the chart while it is put together.

Altair copies a chart with every step that changes it and walks through all its values when it writes it; of thousands
of marks that is most of the time a chart takes. Rows are handed on as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import altair as alt
import numpy as np


class Rows:
    """Rows as Altair's own parts behave: opaque until they are written."""

    _schema: ClassVar[dict] = {"type": "array"}  # what tells Altair to call to_dict

    def __init__(self, rows: Iterable[Mapping[str, object]]) -> None:
        self.rows = [dict(row) for row in rows]

    def to_dict(self, *_: object, **__: object) -> list[dict[str, object]]:
        return [{name: plain(value) for name, value in row.items()} for row in self.rows]


def plain(value: object) -> object:
    """A value of a row as JSON knows it."""
    return value.item() if isinstance(value, np.generic) else value


def data_of(rows: Iterable[Mapping[str, object]]) -> alt.Data:
    """The data of a chart: one mapping of column to value per mark."""
    return alt.Data(values=Rows(rows))

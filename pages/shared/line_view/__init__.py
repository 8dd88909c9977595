"""Lines between two columns of words: queries left, keys right, thicker and darker where more is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import streamlit as st

from backend.words import Group
from pages.shared import map_viewer
from pages.shared.save_picture import OFFER

HERE = Path(__file__).parent
SHARED = ("dom.js", "colour.js")  # of the map viewer
MOST_UNITS = 400  # per column
MOST_LINES = 2000


def script() -> str:
    """The view as one ES module."""
    shared = [(map_viewer.HERE / name).read_text("utf-8") for name in SHARED]
    return "\n".join([*shared, *(path.read_text("utf-8") for path in (OFFER, HERE / "line_view.js"))])


_line_view = st.components.v2.component(
    "headwater_line_view", css=(HERE / "line_view.css").read_text("utf-8"), js=script()
)


@dataclass(frozen=True)
class LineView:
    """What is drawn: the strongest lines of a window."""

    head: str  # "5.3"
    queries: Sequence[Group]
    keys: Sequence[Group]
    first_query: int  # number of the first unit on the left
    first_key: int
    lines: Sequence[tuple[int, int, float]]  # positions in the columns, weight
    picture: str  # under which name the picture is offered to be saved
    chosen: int | None = None  # position on the left

    def message(self) -> dict:
        """What the browser is told."""
        return {
            "head": self.head,
            "picture": self.picture,
            "left": [group.label for group in self.queries],
            "starts": [group.start for group in self.queries],
            "right": [group.label for group in self.keys],
            "special": [[at for at, one in enumerate(side) if one.special] for side in (self.queries, self.keys)],
            "first": [self.first_query, self.first_key],
            "lines": [[int(row), int(key), round(float(weight), 5)] for row, key, weight in self.lines],
            "chosen": self.chosen,
        }


def strongest(weights: np.ndarray, visible: np.ndarray, most: int = MOST_LINES) -> list[tuple[int, int, float]]:
    """The largest visible weights of a window as (row, key, weight), largest last, so that they are drawn on top."""
    cells = np.flatnonzero((visible & (weights > 0)).ravel())
    if len(cells) > most:
        cells = cells[np.argpartition(weights.ravel()[cells], len(cells) - most)[-most:]]
    cells = cells[np.argsort(weights.ravel()[cells], kind="stable")]
    rows, keys = np.unravel_index(cells, weights.shape)
    return [
        (int(row), int(key), float(weights.ravel()[cell])) for row, key, cell in zip(rows, keys, cells, strict=True)
    ]


def line_view(view: LineView, on_choose: Callable[[int], None], key: str) -> None:
    """Draws the lines; `on_choose(token)` hears the first token of the word on the left that was clicked."""

    def choose() -> None:
        value = st.session_state[key].get("choose")
        token = value.get("token") if isinstance(value, dict) else None
        if type(token) is int and token >= 0:
            on_choose(token)

    _line_view(key=key, data=view.message(), height="content", on_choose_change=choose)

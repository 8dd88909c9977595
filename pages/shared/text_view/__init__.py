"""Text in reading order, each unit coloured by the attention from or to the chosen ones; several may be chosen.

Colours and numbers are those of the map viewer, whose scripts are joined in front.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from backend.words import Group
from pages.shared import map_viewer
from pages.shared.save_picture import OFFER

HERE = Path(__file__).parent
SHARED = ("dom.js", "colour.js")  # of the map viewer
MOST_UNITS = 3000  # drawn; of more, a stretch around the chosen one
MOST_CHOSEN = 12


def script() -> str:
    """The view as one ES module."""
    shared = [(map_viewer.HERE / name).read_text("utf-8") for name in SHARED]
    return "\n".join([*shared, *(path.read_text("utf-8") for path in (OFFER, HERE / "text_view.js"))])


_text_view = st.components.v2.component(
    "headwater_text_view", css=(HERE / "text_view.css").read_text("utf-8"), js=script()
)


@dataclass(frozen=True)
class TextView:
    """What is drawn."""

    units: Sequence[Group]
    values: Sequence[float]  # one per unit
    visible: Sequence[bool]
    chosen: Sequence[int]
    words: str  # what the colour means, in words
    picture: str  # under which name the picture is offered to be saved
    left_out: frozenset[int] = frozenset()  # units that are not coloured: hidden sinks
    palette: str = "cividis"
    may_choose: bool = True

    def message(self) -> dict:
        """What the browser is told: the stretch that is drawn. Units are chosen by their first tokens."""
        focus = self.chosen[0] if self.chosen else 0
        first = max(0, min(focus - MOST_UNITS // 2, len(self.units) - MOST_UNITS))
        stretch = range(first, min(first + MOST_UNITS, len(self.units)))
        return {
            "first": first,
            "all": len(self.units),
            "labels": [self.units[at].label for at in stretch],
            "special": [at for at in stretch if self.units[at].special],
            "values": [
                float(self.values[at]) if self.visible[at] and math.isfinite(self.values[at]) else None
                for at in stretch
            ],
            "starts": [self.units[at].start for at in stretch],
            "leftOut": sorted(self.left_out),
            "chosen": [self.units[at].start for at in self.chosen],
            "most": MOST_CHOSEN if self.may_choose else 0,
            "words": self.words,
            "picture": self.picture,
            "palette": self.palette,
        }


def text_view(view: TextView, on_choose: Callable[[list[int]], None], key: str) -> None:
    """Draws the text; `on_choose(tokens)` hears the first tokens of the units that are chosen now."""

    def choose() -> None:
        value = st.session_state[key].get("choose")
        tokens = value.get("tokens") if isinstance(value, dict) else None
        if isinstance(tokens, list) and all(type(one) is int and 0 <= one < view.units[-1].end for one in tokens):
            on_choose(tokens[:MOST_CHOSEN])

    _text_view(key=key, data=view.message(), height="content", on_choose_change=choose)

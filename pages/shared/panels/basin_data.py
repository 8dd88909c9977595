"""What the page of basins reads of an analysis, once per analysis and view."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from backend.basins.basin import Basin, read_basin
from backend.basins.between import Between, between
from backend.basins.slots import Slots, slots_of
from backend.store import Analysis
from pages.shared.view_state import ViewState

SCOPES = ("model", "layer", "head")
LOOKING = {"question": "all tokens of the question", "last": "the last token", "first": "the first (pooling) token"}


@dataclass(frozen=True)
class BasinView:
    """What the address chooses on this page."""

    looking: str  # key of LOOKING
    scope: str  # one of SCOPES
    per_token: bool
    sinkfree: bool
    gold: int | None  # number of the marked part, from 0

    def head(self, state: ViewState) -> tuple[int | None, int | None]:
        """(layer, head) that the scope leaves: None = all."""
        return (None if self.scope == "model" else state.layer, state.head if self.scope == "head" else None)


def has_documents(analysis: Analysis) -> bool:
    """Whether its prompt is documents with a question, which every part of the page can show."""
    return any(segment.kind == "document" for segment in analysis.segments())


def slots_in(analysis: Analysis) -> Slots:
    """The parts of the prompt; Refused in words where there is one only."""
    return slots_of(analysis.segments(), analysis.tokens_list())


def basin_in(analysis: Analysis, kind: str, looking: str, sinkfree: bool) -> Basin:
    """The masses of every head."""
    return _basin(analysis, analysis.id, kind, looking, sinkfree)


def between_in(analysis: Analysis, kind: str, places: tuple[tuple[int, int], ...], sinkfree: bool) -> Between:
    """Parts against parts, mean over the given heads."""
    return _between(analysis, analysis.id, kind, places, sinkfree)


@st.cache_resource(max_entries=16, show_spinner="Reading every head")
def _basin(_analysis: Analysis, id: str, kind: str, looking: str, sinkfree: bool) -> Basin:
    return read_basin(_analysis, slots_in(_analysis), kind=kind, looking=looking, sinkfree=sinkfree)


@st.cache_resource(max_entries=64, show_spinner="Reading every row")
def _between(_analysis: Analysis, id: str, kind: str, places: tuple[tuple[int, int], ...], sinkfree: bool) -> Between:
    return between(_analysis, slots_in(_analysis), places, kind=kind, sinkfree=sinkfree)


def causal(analysis: Analysis, kind: str) -> bool:
    """Whether rows see earlier keys only."""
    return analysis.score(analysis.layers(kind)[0].layer, kind).causal


def view_of(state: ViewState, slots: Slots, is_causal: bool) -> tuple[BasinView, list[str]]:
    """The nearest view that the prompt has; and what of the address does not fit."""
    rows = [name for name in ("question", "last") if is_causal and (name == "last" or slots.question is not None)]
    if not is_causal:
        rows = [name for name in ("question", "first") if name == "first" or slots.question is not None]
    looking, scope, by = (
        state.more(name, default) for name, default in (("look", rows[0]), ("scope", "model"), ("by", "token"))
    )
    said = []
    for name, value, known in (("look", looking, rows), ("scope", scope, SCOPES), ("by", by, ("token", "part"))):
        if value not in known:
            said.append(f"The address has {name}={value[:40]!r}, but one of {', '.join(known)} was expected.")
    gold = state.more("gold")
    number = int(gold) - 1 if gold.isdecimal() and 1 <= int(gold[:9]) <= len(slots) else None
    if gold and number is None:
        said.append(f"The address marks part {gold[:20]!r}; there are parts 1 to {len(slots)}.")
    return BasinView(
        looking=looking if looking in rows else rows[0],
        scope=scope if scope in SCOPES else "model",
        per_token=by != "part",
        sinkfree=state.without_sinks(True),
        gold=number,
    ), said

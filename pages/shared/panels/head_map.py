"""One head large: the zoomable map and the text beside it, with window, marked cell and look in the address."""

from __future__ import annotations

from dataclasses import fields

import streamlit as st

from backend.map_sizes import SIDES, map_sizes
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.map_viewer import Look, MapView, map_viewer, read_look
from pages.shared.view_state import ViewState

SINK_IMPORTANCE, SINK_ROWS = 0.1, 16  # a key is detected as a sink above this mean weight, over at least so many rows
NO_EXACT_MAP = (
    "Only the pooled map of this head was kept. Run the analysis again with exact maps for all heads to zoom to single "
    "weights."
)


def head_map(
    state: ViewState, analysis: Analysis, *, exact: bool, reserve: int = MapView.reserve, key: str = "headwater_map"
) -> None:
    """Draws the map of the head in the address. reserve: pixels of the browser's height that are not for the map."""
    size = map_sizes(analysis)[state.kind][state.layer]
    query_side, key_side = SIDES[state.kind]
    view = MapView(
        analysis=state.analysis,
        kind=state.kind,
        layer=state.layer,
        head=state.head,
        shape=(size.queries, size.keys),
        exact=exact,
        query_side=query_side,
        key_side=key_side,
        segments=tuple(analysis.segments()),
        sinks=sink_keys(analysis, analysis.id, state.kind, state.layer, state.head),
        note="" if exact else NO_EXACT_MAP,
        rows=state.rows,
        columns=state.columns,
        query=state.query,
        key=state.key,
        look=look_of(state),
        palette=state.palette,
        large=state.theme == "projector",
        reserve=reserve,
    )
    map_viewer(
        view,
        on_window=lambda rows, columns: select(rows=rows, columns=columns),
        on_cell=lambda query, key: select(query=query, key=key),
        on_look=_take_look,
        key=key,
    )


def look_of(state: ViewState) -> Look:
    """The look in the address; the parameters are the fields of Look."""
    return read_look({**dict(state.extra), "hide": state.more("hide") == "1"})


def _take_look(look: Look) -> None:
    plain = Look()
    texts = {f.name: getattr(look, f.name) for f in fields(Look)}
    select(**{k: ("1" if v is True else v) if v != getattr(plain, k) else None for k, v in texts.items()})


@st.cache_data(max_entries=2048, show_spinner=False)
def sink_keys(_analysis: Analysis, id: str, kind: str, layer: int, head: int) -> tuple[int, ...]:
    """Keys that receive more than SINK_IMPORTANCE on average over the rows that see them, strongest first."""
    table = _analysis.sql(
        "select key from keys where kind = ? and layer = ? and head = ? and received_mean > ? and visible_rows >= ? "
        "order by received_mean desc",
        (kind, layer, head, SINK_IMPORTANCE, SINK_ROWS),
    )
    return tuple(table.column("key").to_pylist())

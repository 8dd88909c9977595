"""One head large: the zoomable map and the text beside it, with window, marked cell and look in the address."""

from __future__ import annotations

from dataclasses import fields

import streamlit as st

from backend.map_sizes import axis_sides, map_sizes, segment_sides
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.map_viewer import Look, MapView, map_viewer, read_look
from pages.shared.panels.maps_beside import map_against, maps_beside, toggle_pin
from pages.shared.panels.sink_keys import sink_keys
from pages.shared.view_state import ViewState

NO_EXACT_MAP = (
    "Only the pooled map of this head was kept. Run the analysis again with exact maps for all heads to zoom to single "
    "weights."
)


def head_map(
    state: ViewState, analysis: Analysis, *, exact: bool, reserve: int = MapView.reserve, key: str = "headwater_map"
) -> None:
    """Draws the map of the head in the address. reserve: pixels of the browser's height that are not for the map."""
    size = map_sizes(analysis)[state.kind][state.layer]
    query_side, key_side = axis_sides(analysis, state.kind, state.layer)
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
        segment_sides=segment_sides(analysis),
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
        alike=_alike(analysis, analysis.id, state.kind),
        others=maps_beside(state, analysis),
        minus=map_against(state, analysis),
        sinkfree=state.without_sinks(),
    )
    map_viewer(
        view,
        on_window=lambda rows, columns: select(rows=rows, columns=columns),
        on_cell=lambda query, key: select(query=query, key=key),
        on_look=_take_look,
        on_pin=lambda name: toggle_pin(state, analysis, _head(name)),
        on_choose=lambda name: select(layer=_head(name)[0], head=_head(name)[1]),
        key=key,
    )


@st.cache_data(max_entries=64, show_spinner=False)
def _alike(_analysis: Analysis, id: str, kind: str) -> bool:
    """Whether all heads of a kind have exact maps of one shape."""
    sizes = map_sizes(_analysis)[kind]
    shapes = {(size.queries, size.keys) for size in sizes.values()}
    return len(shapes) == 1 and all(len(_analysis.exact_heads(at, kind)) == size.heads for at, size in sizes.items())


def _head(name: str) -> tuple[int, int]:
    layer, head = name.split(".")
    return int(layer), int(head)


def look_of(state: ViewState) -> Look:
    """The look in the address; the parameters are the fields of Look."""
    return read_look({**dict(state.extra), **{name: state.more(name) == "1" for name in ("hide", "fold")}})


def _take_look(look: Look) -> None:
    plain = Look()
    texts = {f.name: getattr(look, f.name) for f in fields(Look)}
    select(**{k: ("1" if v is True else str(v)) if v != getattr(plain, k) else None for k, v in texts.items()})

"""All heads at a glance, as small maps or by the chosen statistic; a click chooses the head."""

from __future__ import annotations

import streamlit as st

from pages.shared import head_grid as grid
from pages.shared.address import select
from pages.shared.panels.head_values import HeadValues
from pages.shared.view_state import ViewState

WORDS = {"maps": "Small maps", "values": "Measure"}
KEY = "headwater_grid_mode"


def head_grid(state: ViewState, values: HeadValues) -> None:
    """Draws the grid and the choice of what its cells show; both are in the address."""
    mode = state.more("grid", grid.MODES[0])
    mode = mode if mode in grid.MODES else grid.MODES[0]
    st.session_state[KEY] = mode
    st.segmented_control(
        "Cells show", grid.MODES, format_func=WORDS.get, key=KEY, on_change=_take_mode, label_visibility="collapsed"
    )
    view = grid.GridView(
        analysis=state.analysis,
        kind=state.kind,
        values=values.by_layer,
        measure=values.words,
        unit=values.statistic.unit,
        layer=state.layer,
        head=state.head,
        mode=mode,
        palette=state.palette,
    )
    grid.head_grid(view, on_pick=lambda layer, head: select(layer=layer, head=head))


def _take_mode() -> None:
    mode = st.session_state[KEY]  # None where the chosen one was clicked again
    select(grid=mode if mode in grid.MODES[1:] else None)

"""Positional basins: where a model looks, what it overlooks, and what order or correction would help."""

from __future__ import annotations

import streamlit as st

from pages.shared.address import select
from pages.shared.frame import frame, opened
from pages.shared.panels.basin_calibration import basin_calibration
from pages.shared.panels.basin_distance import basin_distance
from pages.shared.panels.basin_encoder import basin_encoder
from pages.shared.panels.basin_helps import basin_helps
from pages.shared.panels.basin_needle import basin_needle
from pages.shared.panels.basin_permutation import basin_permutation
from pages.shared.panels.basin_prompt import basin_prompt
from pages.shared.panels.readable import readable
from pages.shared.view_state import ViewState

PARTS = {
    "basin": ("Where does it look?", basin_prompt),
    "position": ("Position or content?", basin_permutation),
    "matter": ("What matters?", basin_calibration),
    "help": ("What would help?", basin_helps),
    "needle": ("Needle", basin_needle),
    "distance": ("Near or far?", basin_distance),
    "encoder": ("Embeddings", basin_encoder),
}
KEY = "headwater_basins_part"


def part_of(state: ViewState) -> str:
    """Which question of the page is answered; a choice above the first picture."""
    part = state.more("part", "basin")
    part = part if part in PARTS else "basin"
    st.session_state[KEY] = part
    st.segmented_control(
        "Question",
        list(PARTS),
        format_func=lambda name: PARTS[name][0],
        key=KEY,
        on_change=_take_part,
        label_visibility="collapsed",
    )
    return part


def _take_part() -> None:
    chosen = st.session_state[KEY]
    select(part=None if chosen in (None, "basin") else chosen, study=None)


state = frame("basins", selectors=("kind", "layer", "head", "sinkfree_on"))
analysis = opened(state)
st.text("Which parts of the prompt does the model look at, and which does it overlook?")
part = part_of(state)
with readable():
    PARTS[part][1](state, analysis)

"""Sparsity: what could be skipped, and what it would really cost."""

from __future__ import annotations

import streamlit as st

from pages.shared.address import select
from pages.shared.frame import frame, opened
from pages.shared.panels.readable import readable
from pages.shared.panels.sparsity_cost import sparsity_cost
from pages.shared.panels.sparsity_dense import sparsity_dense
from pages.shared.panels.sparsity_keys import sparsity_keys
from pages.shared.panels.sparsity_policies import sparsity_policies
from pages.shared.panels.sparsity_prompts import sparsity_prompts
from pages.shared.panels.sparsity_shape import sparsity_shape
from pages.shared.view_state import ViewState

PARTS = {
    "shape": "Concentration and patterns",
    "policies": "Policies",
    "cost": "Real cost",
    "dense": "Dense heads",
    "keys": "Keys",
    "prompts": "Prompts",
}
DRAW = {
    "shape": sparsity_shape,
    "policies": sparsity_policies,
    "cost": sparsity_cost,
    "dense": sparsity_dense,
    "keys": sparsity_keys,
    "prompts": sparsity_prompts,
}
KEY = "headwater_sparsity_part"


def part_of(state: ViewState) -> str:
    """Which part of the page is shown; a choice above the first picture."""
    part = state.more("part", "shape")
    part = part if part in PARTS else "shape"
    st.session_state[KEY] = part
    st.segmented_control(
        "Part", list(PARTS), format_func=PARTS.get, key=KEY, on_change=_take_part, label_visibility="collapsed"
    )
    return part


def _take_part() -> None:
    chosen = st.session_state[KEY]
    select(part=None if chosen in (None, "shape") else chosen)


state = frame("sparsity", selectors=("kind", "layer", "head"))
analysis = opened(state)
st.text("What could be skipped, and what would it really cost?")
with readable():
    DRAW[part_of(state)](state, analysis)

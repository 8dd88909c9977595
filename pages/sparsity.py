"""Sparsity: what could be skipped, and what it would really cost."""

from __future__ import annotations

import streamlit as st

from pages.shared.frame import frame, opened
from pages.shared.panels.part_choice import part_choice
from pages.shared.panels.readable import readable
from pages.shared.panels.sink_free_values import said_with_sinks
from pages.shared.panels.sparsity_cost import sparsity_cost
from pages.shared.panels.sparsity_dense import sparsity_dense
from pages.shared.panels.sparsity_keys import sparsity_keys
from pages.shared.panels.sparsity_policies import sparsity_policies
from pages.shared.panels.sparsity_prompts import sparsity_prompts
from pages.shared.panels.sparsity_shape import sparsity_shape

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
state = frame("sparsity", selectors=("kind", "layer", "head"), parts=PARTS)
analysis = opened(state)
st.text("What could be skipped, and what would it really cost?")
said_with_sinks(
    state, "a cache or a pattern keeps or drops sinks like any key, and what it costs is told of whole rows."
)
with readable():
    DRAW[part_choice(state, PARTS, without_study=("shape", "policies"))](state, analysis)

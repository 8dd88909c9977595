"""Positional basins: where a model looks, what it overlooks, and what order or correction would help."""

from __future__ import annotations

import streamlit as st

from pages.shared.frame import frame, opened
from pages.shared.panels.basin_calibration import basin_calibration
from pages.shared.panels.basin_data import has_documents
from pages.shared.panels.basin_distance import basin_distance
from pages.shared.panels.basin_encoder import basin_encoder
from pages.shared.panels.basin_helps import basin_helps
from pages.shared.panels.basin_needle import basin_needle
from pages.shared.panels.basin_permutation import basin_permutation
from pages.shared.panels.basin_prompt import basin_prompt
from pages.shared.panels.part_choice import part_choice
from pages.shared.panels.readable import readable

PARTS = {
    "basin": "Where does it look?",
    "position": "Position or content?",
    "matter": "What matters?",
    "help": "What would help?",
    "needle": "Needle",
    "distance": "Near or far?",
    "encoder": "Embeddings",
}
DRAW = {
    "basin": basin_prompt,
    "position": basin_permutation,
    "matter": basin_calibration,
    "help": basin_helps,
    "needle": basin_needle,
    "distance": basin_distance,
    "encoder": basin_encoder,
}

state = frame("basins", selectors=("kind", "layer", "head", "sinkfree_on"), parts=PARTS, prefers=has_documents)
analysis = opened(state)
st.text("Which parts of the prompt does the model look at, and which does it overlook?")
part = part_choice(state, PARTS, without_study=("basin", "distance"))
with readable():
    DRAW[part](state, analysis)

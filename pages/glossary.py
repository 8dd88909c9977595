"""Glossary: every statistic of the app with what it says, how it is computed, its unit and its range."""

from __future__ import annotations

import math

import streamlit as st

from backend import statistics
from pages.shared.frame import plain_frame


def bound(value: float) -> str:
    """One end of a range."""
    return "no limit" if math.isinf(value) else f"{value:g}"


plain_frame("glossary")
st.text(
    "What does each number mean? A statistic is one number per head. Cells that a query may not see are in no sum and "
    "in no count."
)
st.caption(
    "In formulas, row i is a query and column j a key. A_ij: the weight of query i on key j. p_i: the place of query i "
    "among the keys. n_i: how many keys it may see."
)
wanted = st.text_input("Search", key="headwater_glossary", live=True, placeholder="sink, entropy, distance") or ""
for name, statistic in statistics.all().items():
    text = f"{name.replace('_', ' ')} {statistic.caption} {statistic.formula}".casefold()
    if all(word in text for word in wanted.casefold().split()):
        with st.container(border=True, key=f"headwater_term_{name}"):
            st.subheader(name.replace("_", " "), anchor=name)
            st.text(statistic.caption)
            st.text(f"Formula: {statistic.formula}")  # st.code would load 1.5 MB of syntax highlighting
            low, high = statistic.range
            st.caption(f"Unit: {statistic.unit}. Range: {bound(low)} to {bound(high)}.")

"""What the chosen statistic means: sentence, formula, unit, range, baseline."""

from __future__ import annotations

import math

import streamlit as st

from pages.shared.panels.head_values import HeadValues


def definition(values: HeadValues, layer: int) -> None:
    """An expander. All of it is shown as plain text: formulas hold characters that markdown would eat."""
    statistic = values.statistic
    with st.expander(f"Definition: {values.words}"):
        st.text(statistic.caption)
        st.text(f"Formula: {statistic.formula}")  # st.code would load 1.5 MB of syntax highlighting
        low, high = ("∞" if math.isinf(edge) else f"{edge:g}" for edge in statistic.range)
        uniform = values.uniform.get(layer)
        baseline = "undefined" if uniform is None else f"{uniform:.6g}"
        st.text(
            f"Unit: {statistic.unit}. Range: {low} to {high}. "
            f"Uniform attention over the visible keys, in layer {layer}: {baseline}."
        )
        st.text(
            "Cells that a query may not see are in no sum and no mean. Attention shows where a head reads, not what "
            "the answer depends on."
        )

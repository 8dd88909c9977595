"""What numbers mean: statistics and terms by name, as plain text (formulas hold characters that markdown would eat)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import streamlit as st

from backend import statistics, terms
from backend.statistics import Statistic
from backend.terms import Term


def definitions(names: Sequence[str]) -> None:
    """Draws the definition of each name below it. A name that is neither a statistic nor a term is a KeyError."""
    known = {**terms.all(), **statistics.all()}
    for name in names:
        st.text(name.replace("_", " ").capitalize())
        definition_of(known[name])


def definition_of(what: Statistic | Term) -> None:
    """Draws one definition without its name."""
    st.text(what.caption)
    st.text(f"Formula: {what.formula}")  # st.code would load 1.5 MB of syntax highlighting
    low, high = (bound(edge) for edge in what.range)
    st.caption(f"Unit: {what.unit}. Range: {low} to {high}.")
    if isinstance(what, Term) and what.baseline:
        st.text(f"Uniform attention over the visible keys: {what.baseline}")
    if isinstance(what, Term) and what.source:
        st.text(f"Source: {what.source}")


def bound(value: float) -> str:
    """One end of a range."""
    return "no limit" if math.isinf(value) else f"{value:g}"

"""What kinds of token the chosen head looks at, and which parts of the prompt, beside uniform attention."""

from __future__ import annotations

import pyarrow as pa
import streamlit as st

from backend.head_classes import ClassMass, class_masses
from backend.store import Analysis
from pages.shared.charts.class_bars import class_bars
from pages.shared.panels.figure import figure
from pages.shared.panels.head_sentences import three_digits
from pages.shared.panels.unit_sentences import share
from pages.shared.view_state import ViewState

KEY = "head_classes"
LEAST_SHARE = 0.02  # of the attention: a class with less is not told for its lift
NOTE = "Function words are those of English; words of other languages count as content."


def head_classes(state: ViewState, analysis: Analysis) -> None:
    """Draws the bars; says so where the keys are no tokens."""
    masses = class_masses(analysis, state.kind, state.layer, state.head)
    if not masses:
        st.text("The keys of this layer are no tokens of the text, so they are of no kind.")
        return
    kinds = [one for one in masses if not one.of_prompt]
    figure(
        KEY,
        class_bars(masses),
        sentence=sentence(kinds, f"{state.layer}.{state.head}"),
        table=table_of(masses),
        terms=("class_mass", "class_lift"),
        note=NOTE,
    )


def sentence(kinds: list[ClassMass], head: str) -> str:
    """The class with most of the attention, and the one that gets most beyond what uniform attention gives."""
    most = max(kinds, key=lambda one: one.mass)
    even = f"uniform attention would give {share(most.uniform)}"
    text = f"Head {head} gives most to “{most.name}”: {share(most.mass)}; {even}."
    lifted = [one for one in kinds if one.mass >= LEAST_SHARE and one.lift > 1]
    if lifted:
        best = max(lifted, key=lambda one: one.lift)
        text += f" Furthest above uniform: “{best.name}”, {three_digits(best.lift)} times."
    return text


def table_of(masses: list[ClassMass]) -> pa.Table:
    """All classes and parts."""
    return pa.table(
        {
            "what": pa.array(["part of the prompt" if one.of_prompt else "kind of token" for one in masses]),
            "name": pa.array([one.name for one in masses]),
            "tokens": pa.array([one.tokens for one in masses], pa.int64()),
            "mass": pa.array([one.mass for one in masses], pa.float64()),
            "uniform": pa.array([one.uniform for one in masses], pa.float64()),
            "lift": pa.array([one.lift if one.lift == one.lift else None for one in masses], pa.float64()),
        }
    )

"""Position or content: starts the permutation study for the open prompt and shows what it found."""

from __future__ import annotations

import streamlit as st

from backend.basins.orders import parts_of, prompt_from
from backend.store import Analysis
from backend.studies.permutation import STUDY, Parameters
from pages.shared.panels import permutation
from pages.shared.panels.basin_studies import answer_field, checked, movable_prompt
from pages.shared.panels.page_study import page_study
from pages.shared.view_state import ViewState

KEY = "headwater_basin_shifts"


def basin_permutation(state: ViewState, analysis: Analysis) -> None:
    """Draws the part of the page: what was found above, how to find more below."""
    found = st.container()
    values = movable_prompt(analysis.info)
    parameters = None
    if values is not None:
        count = len(parts_of(prompt_from(values)))
        with st.container(horizontal=True, vertical_alignment="bottom"):
            answer = answer_field()
            label = f"Shifts (all: {count})"
            shifts = st.number_input(label, 2, count, count, key=f"{KEY}_{count}") if count > 2 else count
        parameters = checked(Parameters, prompt=values, answer=answer, shifts=None if shifts == count else int(shifts))
    study = page_study(state, STUDY, parameters, analysis.info)
    if study is not None:
        with found:
            permutation.result(state, study)

"""Which parts matter: starts the calibration study for the open prompt and shows its rankings."""

from __future__ import annotations

import streamlit as st

from backend.store import Analysis
from backend.studies.calibration import STUDY, Parameters
from pages.shared.panels import calibration
from pages.shared.panels.basin_studies import checked, movable_prompt
from pages.shared.panels.page_study import page_study
from pages.shared.view_state import ViewState


def basin_calibration(state: ViewState, analysis: Analysis) -> None:
    """Draws the part of the page: what was found above, how to find more below."""
    found = st.container()
    values = movable_prompt(analysis.info)
    parameters = None
    if values is not None:
        parameters = checked(Parameters, prompt=values, sinkfree=state.without_sinks(True))
    study = page_study(state, STUDY, parameters, analysis.info)
    if study is not None:
        with found:
            calibration.result(state, study)

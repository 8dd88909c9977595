"""How strong are the sinks of this model? The sink percentage as a study, started and shown here."""

from __future__ import annotations

import streamlit as st

from backend.studies.sink_percentage import STUDY
from pages.shared.panels.page_study import page_study
from pages.shared.panels.readable import readable
from pages.shared.panels.sink_data import SinkData
from pages.shared.panels.sink_percentage import parameters, result
from pages.shared.view_state import ViewState


def sink_strength(state: ViewState, data: SinkData) -> None:
    """Draws the part."""
    above = st.container()  # what was found comes first, the form below it
    study = page_study(state, STUDY, parameters(), data.analysis.info)
    if study is not None:
        with above, readable():
            result(state, study)

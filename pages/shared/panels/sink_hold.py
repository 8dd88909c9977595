"""Does it hold? Sinks over a set of prompts as a study, started and shown here."""

from __future__ import annotations

import streamlit as st

from backend.studies.sink_sets import STUDY
from pages.shared.panels.page_study import page_study
from pages.shared.panels.readable import readable
from pages.shared.panels.sink_data import SinkData
from pages.shared.panels.sink_sets import parameters, result
from pages.shared.view_state import ViewState


def sink_hold(state: ViewState, data: SinkData) -> None:
    """Draws the part."""
    above = st.container()  # what was found comes first, the form below it
    study = page_study(state, STUDY, parameters(data.limits), data.analysis.info)
    if study is not None:
        with above, readable():
            result(state, study)

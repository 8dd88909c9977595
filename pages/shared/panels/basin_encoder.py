"""Encoders and embedding models: starts the study of the order of segments for the open prompt."""

from __future__ import annotations

import streamlit as st

from backend.store import Analysis
from backend.studies.segment_order import STUDY, Parameters
from pages.shared.panels import segment_order
from pages.shared.panels.basin_data import causal
from pages.shared.panels.basin_studies import checked, movable_prompt
from pages.shared.panels.page_study import page_study
from pages.shared.view_state import ViewState


def basin_encoder(state: ViewState, analysis: Analysis) -> None:
    """Draws the part of the page: what was found above, how to find more below."""
    found = st.container()
    parameters = None
    if causal(analysis, state.kind):
        st.text(
            "This model reads from left to right. Open an analysis of an encoder, such as MiniLM, to start this study."
        )
    else:
        values = movable_prompt(analysis.info)
        if values is not None:
            parameters = checked(Parameters, prompt=values, pooling=segment_order.pooling())
    study = page_study(state, STUDY, parameters, analysis.info)
    if study is not None:
        with found:
            segment_order.result(state, study)

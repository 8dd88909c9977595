"""Needle sweep: starts it for the model of the open analysis and shows what it found."""

from __future__ import annotations

import streamlit as st

from backend.store import Analysis
from backend.studies.needle_sweep import STUDY
from pages.shared.panels import needle_sweep
from pages.shared.panels.page_study import page_study
from pages.shared.view_state import ViewState


def basin_needle(state: ViewState, analysis: Analysis) -> None:
    """Draws the part of the page: what was found above, how to find more below."""
    found = st.container()
    study = page_study(state, STUDY, needle_sweep.parameters(), analysis.info)
    if study is not None:
        with found:
            needle_sweep.result(state, study)

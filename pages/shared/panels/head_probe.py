"""The random-repeat probe for the model of this analysis: started, watched and read without leaving the page."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from backend.store import Analysis
from backend.studies.random_repeat import SCORES, STUDY
from pages.shared.panels import random_repeat
from pages.shared.panels.page_study import page_study
from pages.shared.view_state import ViewState


def head_probe(state: ViewState, analysis: Analysis) -> None:
    """Draws the probe; the labels take the scores of the study that is shown, so that a link shows the same."""
    st.text(
        "Natural text mixes repetition with what words mean. On random tokens read twice nothing but the repetition "
        "helps, so these scores of induction, duplicate and previous-token heads are the surer ones. The labels take "
        "them from the study that is shown here, and from this text where none is."
    )
    study = page_study(state, STUDY, random_repeat.parameters(), analysis.info)
    if study is not None:
        score = state.measure if state.measure in SCORES else SCORES[0]
        random_repeat.result(replace(state, measure=score), study)

"""What would help: starts the study for the open prompt and shows what it found."""

from __future__ import annotations

import streamlit as st

from backend.basins.orders import parts_of, prompt_from
from backend.store import Analysis
from backend.studies.what_helps import STUDY, Parameters
from pages.shared.panels import what_helps
from pages.shared.panels.basin_studies import answer_field, checked, gold_of, movable_prompt
from pages.shared.panels.page_study import page_study
from pages.shared.view_state import ViewState

KEY = "headwater_basin_helps_"


def basin_helps(state: ViewState, analysis: Analysis) -> None:
    """Draws the part of the page: what was found above, how to find more below."""
    found = st.container()
    values = movable_prompt(analysis.info)
    parameters = None
    if values is not None:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            answer = answer_field()
            orders = st.number_input("Starting orders", 1, 100, 5, key=KEY + "orders")
            exact = st.toggle(
                "Calibrate exactly",
                value=True,
                key=KEY + "exact",
                help="One dummy run per place; otherwise one run with dummies everywhere, an approximation.",
            )
        gold = gold_of(state, len(parts_of(prompt_from(values))))
        if gold is None:
            st.text("Mark the part that holds the answer (Where does it look?) to steer towards it as well.")
        parameters = checked(Parameters, prompt=values, answer=answer, gold=gold, orders=int(orders), exact=exact)
    study = page_study(state, STUDY, parameters, analysis.info)
    if study is not None:
        with found:
            what_helps.result(state, study)

"""The form that starts a study, and the studies of this browser that were stopped and can be carried on."""

from __future__ import annotations

import streamlit as st

from backend.errors import HeadwaterError
from backend.jobs import key_of
from backend.models import load, seconds_to_load
from backend.studies import all as all_studies
from backend.studies import discard_study, resume_study, unfinished
from pages.shared.model_access import check_model
from pages.shared.opened import owner, shelf
from pages.shared.panels.model_choice import model_choice
from pages.shared.panels.run_cards import LOADING
from pages.shared.panels.study_panels import panel_of
from pages.shared.panels.study_plan import start, study_plan, submit

TROUBLE = "headwater_study_trouble"  # why something was refused, said once


@st.fragment
def study_form() -> None:
    """Draws the form."""
    studies = {name: study for name, study in all_studies().items() if panel_of(name) is not None}
    name = st.selectbox(
        "Study", list(studies), format_func=lambda name: studies[name].title, key="headwater_study_name"
    )
    study = studies[name]
    st.text(study.question)
    choice = model_choice()
    parameters = panel_of(name).parameters()
    if parameters is None:  # the panel has said why
        return
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", key="headwater_study_plan"):
        with st.container(width="stretch"):
            study_plan(choice, study, parameters)
        pressed = st.button("Run", type="primary", disabled=not choice.name, key="headwater_study_run")
    if pressed and choice.name:
        try:
            start(choice, study, parameters)
        except HeadwaterError as error:
            st.text(str(error))
        else:
            st.rerun()


def unfinished_studies() -> None:
    """Draws what was stopped: what it is, how far it came, and a way to carry it on or to give it up."""
    trouble = st.session_state.pop(TROUBLE, None)
    if trouble:
        st.text(trouble)
    for place in unfinished(shelf().own, owner()):
        if place.under_way():
            continue
        begun = place.begun
        with st.container(border=True, key=f"headwater_unfinished_{begun.id}"):
            st.text(f"{begun.title}: {len(place.done())} of {begun.runs} runs are done.")
            with st.container(horizontal=True):
                st.button("Carry on", key=f"headwater_resume_{begun.id}", on_click=resume, args=(begun.id,))
                st.button("Discard", key=f"headwater_discard_{begun.id}", on_click=discard, args=(begun.id,))


def resume(id: str) -> None:
    """Queues the rest of a study."""
    library = shelf().own
    begun = next((place.begun for place in unfinished(library, owner()) if place.begun.id == id), None)
    if begun is None:
        st.session_state[TROUBLE] = "This study is finished or was discarded."
        return

    def work(progress, cancel) -> str:
        progress(LOADING, 0, 0, seconds_to_load(begun.model))
        return resume_study(id, load(begun.model), library=library, progress=progress, cancel=cancel).id

    try:
        check_model(begun.model)
        submit(begun.title, work, key_of("carry on", id))
    except HeadwaterError as error:
        st.session_state[TROUBLE] = str(error)


def discard(id: str) -> None:
    """Gives a study of this browser up."""
    if id not in [place.begun.id for place in unfinished(shelf().own, owner())]:
        return
    try:
        discard_study(id, shelf().own)
    except HeadwaterError as error:
        st.session_state[TROUBLE] = str(error)

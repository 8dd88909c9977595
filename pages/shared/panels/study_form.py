"""The form that starts a study, and the studies of this browser that were stopped and can be carried on."""

from __future__ import annotations

from typing import Any

import streamlit as st

from backend.errors import HeadwaterError
from backend.jobs import process_jobs
from backend.models import load
from backend.studies import StudyDefinition, discard_study, resume_study, run_study, unfinished
from backend.studies import all as all_studies
from pages.shared.model_loading import forget, loading
from pages.shared.opened import owner, shelf
from pages.shared.panels.model_choice import ModelChoice, model_choice
from pages.shared.panels.run_cards import STARTED
from pages.shared.panels.study_panels import panel_of

WAITING = "headwater_study_waiting"  # the plan waits for the model
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
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", key="headwater_study_plan"):
        with st.container(width="stretch"):
            if not choice.name:
                st.text("Give a model.")
            elif not choice.packaged:
                st.text("What it will take is known when the model has been loaded.")
            else:
                every = None if loading(choice.name).done() else 1.0
                st.fragment(_plan, run_every=every)(choice, study, parameters)
        pressed = st.button("Run", type="primary", disabled=not choice.name, key="headwater_study_run")
    if pressed and choice.name:
        try:
            start(choice, study, parameters)
        except HeadwaterError as error:
            st.text(str(error))
        else:
            st.rerun()


def start(choice: ModelChoice, study: StudyDefinition, parameters: Any) -> None:
    """Queues the study for this browser."""
    name, library, visitor = choice.name, shelf().own, owner()

    def work(progress, cancel) -> str:
        progress("loading the model", 0, 0, None)
        return run_study(
            study, load(name), parameters, library=library, owner=visitor, progress=progress, cancel=cancel
        ).id

    submit(f"{study.title} · {choice.title}", work)


def submit(title: str, work) -> None:
    """Queues work on a study for this browser."""
    job = process_jobs().submit(title, work, type="study", owner=owner())
    st.session_state.setdefault(STARTED, []).append(job.id)


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
        progress("loading the model", 0, 0, None)
        return resume_study(id, load(begun.model), library=library, progress=progress, cancel=cancel).id

    try:
        submit(begun.title, work)
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


def _plan(choice: ModelChoice, study: StudyDefinition, parameters: Any) -> None:
    """One sentence: runs, time, disk; or why the study cannot be made."""
    model_loads = loading(choice.name)
    if not model_loads.done():
        st.session_state[WAITING] = True
        st.text("The model is being loaded; what it will take follows.")
        return
    if st.session_state.pop(WAITING, False):
        st.rerun()  # the form is drawn anew without the clock that waited for the model
    try:
        model_loads.result()
        st.text(study.plan(load(choice.name), parameters).sentence)
    except HeadwaterError as error:
        if model_loads.exception() is not None:
            forget(choice.name)
        st.text(str(error))

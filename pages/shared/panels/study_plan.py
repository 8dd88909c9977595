"""What a study would take, in a sentence; and its start in the background."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from backend.errors import HeadwaterError
from backend.jobs import Job, key_of, process_jobs
from backend.models import load, seconds_to_load, usual_device
from backend.studies import StudyDefinition, run_study
from pages.shared.model_access import check_model
from pages.shared.model_loading import forget, loading, loads_in
from pages.shared.opened import beside, owner, shelf
from pages.shared.panels.model_choice import ModelChoice
from pages.shared.panels.run_cards import LOADING, STARTED

WAITING = "headwater_study_waiting"  # the plan waits for the model


def study_plan(choice: ModelChoice, study: StudyDefinition, parameters: Any) -> None:
    """Draws what it will take. A model that came as a package is loaded beside the page for it."""
    if not choice.name:
        st.text("Give a model.")
    elif not choice.packaged:
        st.text(f"What it will take is known when its run has loaded the model{loads_in(choice.name)}.")
    else:
        every = None if loading(choice.name).done() else 1.0
        st.fragment(_plan, run_every=every)(choice, study, parameters)


def start(
    choice: ModelChoice,
    study: StudyDefinition,
    parameters: Any,
    *,
    revision: str | None = None,
    access: dict[str, Any] | None = None,
) -> Job:
    """Queues the study for this browser. access: who may see it, see `beside`."""
    access = access or beside(None)
    name, library, visitor = check_model(choice.name), shelf().own, owner()

    def work(progress, cancel) -> str:
        progress(LOADING, 0, 0, seconds_to_load(name, revision))
        model = load(name, revision=revision)
        return run_study(
            study,
            model,
            parameters,
            library=library,
            owner=visitor,
            **access,
            progress=progress,
            cancel=cancel,
        ).id

    key = key_of(study.name, name, revision, parameters, access)
    return submit(f"{study.title_of(parameters)} · {choice.title}", work, key)


def submit(title: str, work: Callable, key: str) -> Job:
    """Queues work on a study for this browser; a second click on the same gives the job that is there."""
    job = process_jobs().submit(title, work, type="study", device=usual_device(), owner=owner(), key=key)
    st.session_state.setdefault(STARTED, []).append(job.id)
    return job


def _plan(choice: ModelChoice, study: StudyDefinition, parameters: Any) -> None:
    """One sentence: runs, time, disk; or why the study cannot be made."""
    model_loads = loading(choice.name)
    if not model_loads.done():
        st.session_state[WAITING] = True
        st.text(f"The model is being loaded{loads_in(choice.name)}; what the study will take follows.")
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

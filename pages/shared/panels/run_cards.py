"""What is being read: a card per run of this browser, with its progress and a way to stop it.

The cards redraw themselves once a second while something is under way; the rest of the page is left alone. Runs belong
to the browser, so a second tab and a reloaded page show the same cards.
"""

from __future__ import annotations

import streamlit as st

from backend.duration import duration
from backend.errors import HeadwaterError
from backend.jobs import Job, process_jobs
from pages.shared.opened import owner

LOADING = "loading the model"  # the first step of a run
STARTED = "headwater_started"  # ids of the runs this tab started
DISMISSED = "headwater_dismissed"  # ids of finished runs whose card was closed here
STOPPING = "headwater_stopping"  # ids of the runs that were told to stop here and still work on a step
TROUBLE = "headwater_save_trouble"  # why saving again failed, said once
PLACES = {"analysis": ("pages/heads.py", "analysis"), "study": ("pages/studies.py", "study")}  # page, parameter
UNFINISHED = "What was done before is kept: carry the study on on the page Studies."
STEPS = {"prepare": "checking the model and the prompt", "write": "writing", "save": "storing the result"}
SHOWN = 4  # finished cards
UNDER_WAY = ("queued", "running")


def run_cards(title: str | None = None) -> None:
    """Draws the cards of this browser's runs. With a title only of those that have it and ended without a result or
    have not ended: the page that asks shows the results itself."""
    try:
        busy = any(job.state in UNDER_WAY for job in my_jobs(title))
    except HeadwaterError as error:  # a data folder that cannot be written: what is stored can still be read
        st.text(str(error))
        return
    st.fragment(_cards, run_every=1.0 if busy else None)(busy, title)


def my_jobs(title: str | None = None) -> list[Job]:
    """The runs of this browser, newest first; those of this tab only where it has no cookie."""
    name, jobs = owner(), process_jobs()
    if name is not None:
        mine = jobs.jobs(name)
    else:
        started = st.session_state.get(STARTED, [])
        mine = [job for job in jobs.jobs() if job.id in started]
    return [job for job in mine if title is None or (job.title == title and job.state != "done")]


def _cards(busy_before: bool, title: str | None) -> None:
    jobs = my_jobs(title)
    dismissed = st.session_state.get(DISMISSED, set())
    busy = [job for job in jobs if job.state in UNDER_WAY]
    over = [job for job in jobs if job.state not in UNDER_WAY and job.id not in dismissed]
    if busy_before and not busy:
        st.rerun()  # the list of analyses beside the cards has a new entry
    trouble = st.session_state.pop(TROUBLE, None)
    if trouble:
        st.text(trouble)
    for job in [*busy, *over[:SHOWN]]:
        with st.container(border=True, key=f"headwater_run_{job.id}"):
            _card(job)


def _card(job: Job) -> None:
    stopping = job.id in st.session_state.get(STOPPING, set())
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
        st.text(job.title, width="stretch", wrap=False)
        if job.state in UNDER_WAY:
            key = f"headwater_cancel_{job.id}"
            st.button("Cancel", key=key, on_click=_cancel, args=(job.id,), disabled=stopping)
        else:
            _after(job)
    if job.state in UNDER_WAY:
        st.progress(job.layer / job.n_layers if job.n_layers else 0.0)
    st.text("It stops after the step it is at." if stopping and job.state == "running" else sentence(job))


def _after(job: Job) -> None:
    """What can be done once a run is over."""
    if job.state == "done" and job.analysis_id:
        page, name = PLACES[job.type]
        st.page_link(page, label="Open", query_params={name: job.analysis_id})
    elif job.state == "failed" and job.unsaved:
        st.button("Save again", key=f"headwater_save_{job.id}", on_click=_save_again, args=(job.id,))
    st.button("Close", key=f"headwater_close_{job.id}", on_click=_dismiss, args=(job.id,), type="tertiary")


def sentence(job: Job) -> str:
    """How a run stands, in a sentence."""
    if job.state == "queued":
        return "Next in line." if job.position <= 1 else f"Waiting: {job.position} runs are before it."
    if job.state == "running" and job.step == LOADING and job.seconds_left is not None:
        return f"Loading the model takes about {duration(job.seconds_left)}; the run follows."
    if job.state == "running":
        unit = "run" if job.type == "study" else "layer"
        where = f"{unit} {job.layer} of {job.n_layers}" if job.n_layers else STEPS.get(job.step, job.step or "starting")
        left = "" if job.seconds_left is None else f", about {duration(job.seconds_left)} left"
        return f"Reading: {where}{left}."
    if job.type == "study" and job.state in ("cancelled", "interrupted"):
        return f"{'Stopped on request.' if job.state == 'cancelled' else 'The server was stopped.'} {UNFINISHED}"
    endings = {"done": "Done.", "cancelled": "Stopped on request; nothing was stored."}
    return endings.get(job.state) or job.error or "The run ended without a result. Start it again."


def _cancel(job_id: str) -> None:
    process_jobs().cancel(job_id)
    st.session_state.setdefault(STOPPING, set()).add(job_id)


def _dismiss(job_id: str) -> None:
    st.session_state.setdefault(DISMISSED, set()).add(job_id)


def _save_again(job_id: str) -> None:
    try:
        process_jobs().save_again(job_id)
    except HeadwaterError as error:
        st.session_state[TROUBLE] = str(error)

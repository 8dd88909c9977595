"""A study started from the page that shows it, for the model of the open analysis.

    study = page_study(state, STUDY, parameters, analysis.info)
    if study is not None:
        ...draw what it found

Which study is shown is in the address (`study`). One that ends while its page is open shows itself; one that ended
meanwhile is offered in a line. A study of another kind, or on a part that has none, is said, and where it is shown.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from backend.errors import Damaged, HeadwaterError, NewerFile, NotFound
from backend.models import available
from backend.store import Entry, Study
from backend.studies import StudyDefinition
from pages.shared.address import select
from pages.shared.opened import beside, open_study, owner, shelf
from pages.shared.panels.library_row import facts
from pages.shared.panels.model_choice import ModelChoice
from pages.shared.panels.run_cards import my_jobs, run_cards
from pages.shared.panels.show_when_done import show_when_done
from pages.shared.panels.study_plan import start, study_plan
from pages.shared.view_state import ViewState

STARTED_HERE = "headwater_page_study_"  # + name of the study: id of the job whose result shows itself
SEEN = "headwater_page_study_seen"  # ids of the studies that this tab has shown
LISTED = 12


def page_study(state: ViewState, study: StudyDefinition, parameters: Any | None, info: dict) -> Study | None:
    """Draws start, progress and list of one kind of study; returns the one of the address where it is of this kind.

    parameters: None where the page's choices give none (it has said why): then only finished ones can be looked at.
    info: that of the open analysis; the study is made with its model, and is private where the analysis is.
    """
    with st.container(border=True, key=f"headwater_page_study_{study.name}"):
        st.text(study.question)
        if parameters is not None:
            _start(study, parameters, model_of(info), info)
        _finished(state, study, str(info.get("model", "")))
    return _shown(state, study)


def model_of(info: dict) -> ModelChoice:
    """The model of an analysis, as what `load` is asked for."""
    name = str(info.get("model", ""))
    packaged = {choice.name: choice for choice in available()}
    return ModelChoice(name, packaged[name].title if name in packaged else name, packaged=name in packaged)


def _start(study: StudyDefinition, parameters: Any, choice: ModelChoice, info: dict) -> None:
    with st.container(horizontal=True, wrap=False, vertical_alignment="center"):
        with st.container(width="stretch"):
            study_plan(choice, study, parameters)
        pressed = st.button("Run", key=f"headwater_page_study_run_{study.name}", disabled=not choice.name)
    if pressed:
        revision = None if choice.packaged else info.get("revision")
        try:
            job = start(choice, study, parameters, revision=revision, access=beside(info.get("id")))
        except HeadwaterError as error:
            st.text(str(error))
        else:
            st.session_state[STARTED_HERE + study.name] = job.id
    show_when_done(STARTED_HERE + study.name, "study")
    run_cards(f"{study.title_of(parameters)} · {choice.title}")


def _finished(state: ViewState, study: StudyDefinition, model: str) -> None:
    """The stored studies of this kind that this person may see, those of the same model first, newest first."""
    entries = [entry for entry in shelf().entries(owner()) if entry.type == "study" and entry.study == study.name]
    entries.sort(key=lambda entry: entry.model != model)
    if not entries:
        return
    _ended_meanwhile(state, study, {entry.id: entry for entry in entries})
    offered: dict[str, Entry] = {entry.id: entry for entry in entries[:LISTED]}
    key = f"headwater_page_study_shown_{study.name}"
    st.session_state[key] = state.study if state.study in offered else None
    st.selectbox(
        "Finished",
        list(offered),
        format_func=lambda id: f"{offered[id].title} · {facts(offered[id], bundled=False)}",
        key=key,
        index=None,
        placeholder=f"{len(offered)} finished; choose one to see it",
        on_change=lambda: select(study=st.session_state[key]),
    )


def _ended_meanwhile(state: ViewState, study: StudyDefinition, stored: dict[str, Entry]) -> None:
    """The newest study of this kind that this browser ran and this tab has not shown yet."""
    seen = st.session_state.setdefault(SEEN, set())
    if state.study is not None:
        seen.add(state.study)
    try:
        ended = [job.analysis_id for job in my_jobs() if job.type == "study" and job.state == "done"]
    except HeadwaterError:  # a data folder that cannot be written: the cards of the runs have said so
        return
    newest = next((id for id in ended if id in stored), None)
    if newest is None or newest in seen:
        return
    with st.container(horizontal=True, wrap=False, vertical_alignment="center"):
        st.text(f"Finished while you were away: {stored[newest].title}", width="stretch", wrap=False)
        st.button("Show it", key=f"headwater_page_study_open_{study.name}", on_click=select, kwargs={"study": newest})


def stray_study(state: ViewState, here: str) -> None:
    """Says that the study of the address is not shown here and leads to where it is. `here`: what this part shows."""
    if state.study is None:
        return
    try:
        entry = shelf().entry(open_study(state.study).id, owner())
    except (NotFound, Damaged, NewerFile) as error:
        st.text(str(error))
        return
    with st.container(horizontal=True, vertical_alignment="center", key="headwater_stray_study"):
        st.text(f"The link leads to the study “{entry.title}”; {here}.")
        st.page_link("pages/studies.py", label="Open it on the page Studies", query_params={"study": entry.id})


def _shown(state: ViewState, study: StudyDefinition) -> Study | None:
    if state.study is None:
        return None
    try:
        found = open_study(state.study)
    except (NotFound, Damaged, NewerFile) as error:
        st.text(str(error))
        return None
    if found.info.get("study") == study.name:
        return found
    stray_study(state, f"this part shows “{study.title}”")
    return None

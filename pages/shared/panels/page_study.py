"""A study started from the page that shows it, for the model of the open analysis.

    study = page_study(state, STUDY, parameters, analysis.info)
    if study is not None:
        ...draw what it found

Which study is shown is in the address (`study`). One that ends while its page is open shows itself.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from backend.errors import Damaged, HeadwaterError, NewerFile, NotFound
from backend.models import available
from backend.store import Entry, Study
from backend.studies import StudyDefinition
from pages.shared.address import select
from pages.shared.opened import open_study, owner, shelf, visibility_beside
from pages.shared.panels.library_row import facts
from pages.shared.panels.model_choice import ModelChoice
from pages.shared.panels.run_cards import run_cards
from pages.shared.panels.show_when_done import show_when_done
from pages.shared.panels.study_plan import start, study_plan
from pages.shared.view_state import ViewState

STARTED_HERE = "headwater_page_study_"  # + name of the study: id of the job whose result shows itself
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
            job = start(choice, study, parameters, revision=revision, visibility=visibility_beside(info.get("id")))
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


def _shown(state: ViewState, study: StudyDefinition) -> Study | None:
    if state.study is None:
        return None
    try:
        found = open_study(state.study)
    except (NotFound, Damaged, NewerFile) as error:
        st.text(str(error))
        return None
    return found if found.info.get("study") == study.name else None

"""Studies: several runs that answer one question. What one found, how to start one, how to carry one on."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from backend.errors import Damaged, NewerFile, NotFound
from backend.store import Study
from pages.shared.frame import plain_frame
from pages.shared.header import header
from pages.shared.opened import open_study, owner, shelf
from pages.shared.panels.library_row import facts
from pages.shared.panels.readable import readable
from pages.shared.panels.run_cards import run_cards
from pages.shared.panels.sink_free_values import said_with_sinks
from pages.shared.panels.study_form import study_form, unfinished_studies
from pages.shared.panels.study_panels import panel_of
from pages.shared.view_state import ViewState, to_query

LISTED = 30
START = "headwater_study_start"


def fitted(state: ViewState) -> tuple[ViewState, list[str]]:
    """The nearest view: without the study where it cannot be opened, else what its panel finds nearest."""
    if state.study is None:
        return state, []
    try:
        study = open_study(state.study)
        panel = panel_of(str(study.info.get("study")))
        return (state, []) if panel is None else panel.fitted(state, study)
    except (NotFound, Damaged, NewerFile) as error:
        return replace(state, study=None), [str(error), "No study is shown."]


def found(state: ViewState, study: Study) -> None:
    """What a study found; of one that has no panel here, its tables."""
    name = str(study.info.get("study"))
    info = study.info
    header(
        title=shelf().entry(study.id, owner()).title,
        model=str(info.get("model", "")),
        numbers=f"{info.get('runs', '?')} runs · {str(info.get('created_at'))[:10]}",
        query=to_query(state),
    )
    panel = panel_of(name)
    if panel is not None:
        panel.result(state, study)
        said_with_sinks(state, "a study is shown as it was run; only one that was run without sinks says so itself.")
    else:
        tables = [table for table in study.tables() if table != "info"]
        st.dataframe(study.table(st.selectbox("Table", tables, key="headwater_study_table")), hide_index=True)
    members(study)


def members(study: Study) -> None:
    """Links to the analyses that the study kept, as far as they are still there."""
    titles = {entry.id: entry.title for entry in shelf().entries(owner())}
    there = [member for member in study.info.get("members", []) if member in titles]
    if there:
        with st.expander(f"{len(there)} analyses of this study"):
            for member in there:
                st.page_link("pages/heads.py", label=f"`{member}`", query_params={"analysis": member})


def finished(state: ViewState) -> None:
    """The stored studies that this person may see, newest first."""
    entries = [entry for entry in shelf().entries(owner()) if entry.type == "study"]
    st.text("Finished studies" if entries else "No study is stored yet.")
    for entry in entries[:LISTED]:
        with st.container(horizontal=True, vertical_alignment="center", key=f"headwater_finished_{entry.id}"):
            with st.container(gap=None, width="stretch"):
                st.text(entry.title, wrap=False)
                st.text(facts(entry, bundled=False), wrap=False)
            if entry.id == state.study:
                st.text("shown")
            else:
                st.page_link("pages/studies.py", label="Open", query_params={"study": entry.id})


state = plain_frame("studies", fitted)
if state.study is not None:
    with readable():
        found(state, open_study(state.study))
    st.divider()
st.text("What do several runs together say? The random-repeat study finds heads that copy from earlier in the text.")
left, right = st.columns(2, gap="large")
with left:
    box = st.expander("Start a study", key=START, on_change="rerun")
    if box.open:  # the form loads the model for its plan; who only looks at a result needs none
        with box:
            study_form()
with right:
    run_cards()
    unfinished_studies()
    finished(state)

"""Try it yourself: a word of the text is replaced, the small model reads it again, and both maps stand side by side."""

from __future__ import annotations

import streamlit as st

from backend.edit_prompt import edited_words
from backend.errors import HeadwaterError
from backend.interventions import EditText
from backend.jobs import process_jobs
from backend.models import available, load, seconds_to_load
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Analysis
from pages.shared.model_access import check_model
from pages.shared.opened import beside, outline, owner, shelf
from pages.shared.panels.head_map import head_map
from pages.shared.panels.run_cards import LOADING, STARTED, run_cards
from pages.shared.panels.run_form import chosen_options
from pages.shared.panels.show_when_done import show_when_done
from pages.shared.view_state import ViewState, fit

TRIED = "tried"  # parameter of the address: the analysis of the changed text
WAITING = "headwater_lesson_try_job"
TITLE = "A changed word"
RESERVE = 330


def lesson_try(state: ViewState, view: ViewState, analysis: Analysis) -> None:
    """Draws the two words, the run, and once it is done both maps."""
    model = str(analysis.info.get("model", ""))
    if model not in {choice.name for choice in available()}:
        st.text(f"The model {model} is not installed here, so the text cannot be read again. make run installs it.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        old = st.text_input("Replace", key="headwater_lesson_old", placeholder="a word of the text") or ""
        new = st.text_input("by", key="headwater_lesson_new", placeholder="another word") or ""
        pressed = st.button("Read again", key="headwater_lesson_run", disabled=not old)
    if pressed:
        try:
            _start(model, analysis, old, new)
        except HeadwaterError as error:
            st.text(str(error))
    show_when_done(WAITING, TRIED)
    run_cards(TITLE)
    if state.more(TRIED):
        _beside(state, view, analysis)


def _start(model: str, analysis: Analysis, old: str, new: str) -> None:
    """Queues the run for this browser. Refused where the word does not stand in the text."""
    given = {name: tuple(value) if name == "pair" else value for name, value in analysis.info["prompt"].items()}
    prompt = edited_words(Prompt(**given), [EditText(old=old, new=new)])
    library, visitor, options = shelf().own, owner(), chosen_options()
    access = beside(analysis.id)
    check_model(model)

    def work(progress, cancel) -> str:
        progress(LOADING, 0, 0, seconds_to_load(model))
        return analyse(
            load(model),
            prompt,
            options=options,
            library=library,
            owner=visitor,
            **access,
            progress=progress,
            cancel=cancel,
        ).id

    job = process_jobs().submit(TITLE, work, owner=visitor)
    st.session_state.setdefault(STARTED, []).append(job.id)
    st.session_state[WAITING] = job.id


def _beside(state: ViewState, view: ViewState, analysis: Analysis) -> None:
    """The map of the lesson and the same head on the changed text."""
    changed = shelf().open(state.more(TRIED), owner()).analysis
    plain = ViewState(**{**vars(view), "rows": None, "columns": None, "query": None, "key": None})
    for place, (name, one) in zip(st.columns(2), (("The text", analysis), ("Changed", changed)), strict=True):
        with place:
            shown, _ = fit(ViewState(**{**vars(plain), "analysis": one.id}), outline(one))
            st.text(f"{name}: head {shown.layer}.{shown.head}, {one.info['n_tokens']} tokens")
            exact = shown.head in one.exact_heads(shown.layer, shown.kind)
            head_map(shown, one, exact=exact, reserve=RESERVE, key=f"headwater_map_tried_{name}")

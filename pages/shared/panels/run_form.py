"""The form that starts a run: model, prompt, what the run will take, and the button.

It is a fragment: typing redraws the form and its estimate, not the page. A model that came as a package is loaded
beside the page as soon as there is a prompt, so that the estimate is exact and the run starts at once.
"""

from __future__ import annotations

import streamlit as st

from backend.errors import HeadwaterError
from backend.estimate import refuse_unless_it_fits
from backend.isolated import isolated
from backend.jobs import key_of, process_jobs
from backend.models import load, seconds_to_load, usual_device
from backend.options import Options
from backend.pipeline import analyse, check_length, estimate
from backend.prompts import Prompt, encode
from backend.reading import check_target
from backend.settings import MAX_TOKENS, READ_ONLY
from pages.shared.model_access import check_model
from pages.shared.model_loading import forget, loading, loads_in
from pages.shared.opened import owner, shelf
from pages.shared.panels.model_choice import ModelChoice, model_choice
from pages.shared.panels.prompt_form import KEEP, prompt_form
from pages.shared.panels.run_cards import LOADING, STARTED

TITLE_LENGTH = 60
WAITING = "headwater_waiting"  # the estimate waits for the model


@st.fragment
def run_form() -> None:
    """Draws the form."""
    st.text("What is being read?")
    if READ_ONLY.text() == "1":
        st.text("This server only shows what is stored: choose an analysis. Install Headwater to run a prompt.")
        return
    choice = model_choice()
    prompt, missing = prompt_form()
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", key="headwater_estimate"):
        with st.container(width="stretch"):
            if prompt is None or not choice.name:
                st.text(missing or "Give a model.")
            elif not choice.packaged:
                st.text(f"The estimate is made when its first run has loaded the model{loads_in(choice.name)}.")
            else:
                st.fragment(_estimate, run_every=None if loading(choice.name).done() else 1.0)(choice, prompt)
        ready = prompt is not None and bool(choice.name)
        pressed = st.button("Run", type="primary", disabled=not ready, key="headwater_run")
    if pressed and ready:
        try:
            start(choice, prompt)
        except HeadwaterError as error:
            st.text(str(error))
        else:
            st.rerun()


def start(choice: ModelChoice, prompt: Prompt) -> None:
    """Queues the run for this browser."""
    name, library, visitor, options = check_model(choice.name), shelf().own, owner(), chosen_options()

    def work(progress, cancel) -> str:
        progress(LOADING, 0, 0, seconds_to_load(name))
        return analyse(
            load(name), prompt, options=options, library=library, owner=visitor, progress=progress, cancel=cancel
        ).id

    title, key = f"{isolated(title_of(prompt))} · {choice.title}", key_of(name, prompt, options)
    job = process_jobs().submit(title, work, device=usual_device(), owner=visitor, key=key)
    st.session_state.setdefault(STARTED, []).append(job.id)


def chosen_options() -> Options:
    """The options of a run that is started here."""
    return Options(max_tokens=MAX_TOKENS.integer(), keep_media=bool(st.session_state.get(KEEP)))


def title_of(prompt: Prompt) -> str:
    """The first words of a prompt, on one line."""
    if prompt.text is None and (prompt.image is not None or prompt.audio is not None):
        return "A picture" if prompt.audio is None else "A sound"
    first = prompt.text or prompt.question or (prompt.chat or [{}])[-1].get("content") or " / ".join(prompt.pair or ())
    line = " ".join(first.split())
    return line if len(line) <= TITLE_LENGTH else line[:TITLE_LENGTH] + "…"


def _estimate(choice: ModelChoice, prompt: Prompt) -> None:
    """One sentence: tokens, time, disk, exact maps; or why the run cannot be made."""
    model_loads = loading(choice.name)
    if not model_loads.done():
        st.session_state[WAITING] = True
        st.text(f"The model is being loaded{loads_in(choice.name)}; the estimate of the run follows.")
        return
    if st.session_state.pop(WAITING, False):
        st.rerun()  # the form is drawn anew without the clock that waited for the model
    try:
        model_loads.result()
        model = load(choice.name).tower_for(prompt)
        encoded, options = encode(model, prompt), chosen_options()
        check_target(model, prompt.target)
        check_length(encoded, options)
        needed = estimate(model, len(encoded.token_ids), options)
        refuse_unless_it_fits(model, needed, shelf().own.path)
        st.text(needed.sentence)
        for notice in encoded.notices:
            st.text(notice)
    except HeadwaterError as error:
        if model_loads.exception() is not None:
            forget(choice.name)
        st.text(str(error))

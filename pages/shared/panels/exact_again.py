"""Where the exact maps of a layer were not kept: a way to have the prompt read again with them."""

from __future__ import annotations

import streamlit as st

from backend.errors import HeadwaterError
from backend.jobs import key_of, process_jobs
from backend.map_sizes import map_sizes
from backend.models import load, usual_device
from backend.options import Options
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.settings import MAX_TOKENS, READ_ONLY
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.model_access import check_model
from pages.shared.opened import owner, shelf
from pages.shared.panels.run_cards import STARTED, UNDER_WAY, my_jobs, run_cards
from pages.shared.view_state import ViewState

WAITING = "headwater_exact_again"  # id of the job whose analysis shows itself


def exact_again(state: ViewState, analysis: Analysis) -> None:
    """Draws the offer and the run; a finished one takes the place of the analysis, with the same view."""
    st.text("The rows of this head were not kept exactly, so their bars cannot be drawn.")
    changed = (analysis.info.get("options") or {}).get("interventions")
    if READ_ONLY.text() == "1" or changed:  # a changed run is a study's or a notebook's: it is repeated there
        return
    title = f"Layer {state.layer} exactly · {analysis.id}"
    if st.button(f"Read the prompt again and keep layer {state.layer} exactly", key="headwater_exact_again_run"):
        try:
            _start(state, analysis, title)
        except HeadwaterError as error:
            st.text(str(error))
    _show_when_done()
    run_cards(title)


def _start(state: ViewState, analysis: Analysis, title: str) -> None:
    """Queues the run for this browser. Refused where the model may not be loaded here."""
    info = analysis.info
    name, library, visitor = check_model(str(info.get("model", ""))), shelf().own, owner()
    prompt = prompt_of(info)
    heads = map_sizes(analysis)[state.kind][state.layer].heads
    options = Options(exact_maps=[(state.layer, head) for head in range(heads)], max_tokens=MAX_TOKENS.integer())

    def work(progress, cancel) -> str:
        progress("loading the model", 0, 0, None)
        return analyse(
            load(name), prompt, options=options, library=library, owner=visitor, progress=progress, cancel=cancel
        ).id

    job = process_jobs().submit(
        title, work, device=usual_device(), owner=visitor, key=key_of(name, repr(info["prompt"]), options)
    )
    st.session_state.setdefault(STARTED, []).append(job.id)
    st.session_state[WAITING] = job.id


def prompt_of(info: dict) -> Prompt | list[int]:
    """The prompt of an analysis, to be read again."""
    given = dict(info["prompt"])
    if "token_ids" in given:
        return list(given["token_ids"])
    tuples = {"pair": tuple, "examples": lambda pairs: [tuple(pair) for pair in pairs]}
    return Prompt(**{name: tuples.get(name, lambda same: same)(value) for name, value in given.items()})


def _show_when_done() -> None:
    """What was started here and has ended is put into the address, once."""
    waited_for = st.session_state.get(WAITING)
    job = next((job for job in my_jobs() if job.id == waited_for), None)
    if job is None or job.state in UNDER_WAY:
        return
    del st.session_state[WAITING]
    if job.state == "done" and job.analysis_id:
        select(analysis=job.analysis_id)
        st.rerun()

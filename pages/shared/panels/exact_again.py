"""Where the exact maps of a layer were not kept: a way to have the prompt read again with them."""

from __future__ import annotations

import streamlit as st

from backend.errors import HeadwaterError
from backend.jobs import key_of, process_jobs
from backend.map_sizes import map_sizes
from backend.models import load, seconds_to_load, usual_device
from backend.options import Options
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.settings import MAX_TOKENS, READ_ONLY
from backend.store import Analysis
from pages.shared.model_access import check_model
from pages.shared.opened import beside, owner, shelf
from pages.shared.panels.page_study import model_of
from pages.shared.panels.run_cards import LOADING, STARTED, run_cards
from pages.shared.panels.show_when_done import show_when_done
from pages.shared.view_state import ViewState

WAITING = "headwater_exact_again"  # id of the job whose analysis shows itself
# The options that change the tokens or the tables; limits are this server's, not those of the file.
KEPT = ("pooled", "top_links", "new_tokens", "num_beams", "predictions", "temperature", "top_p", "seed")


def exact_again(state: ViewState, analysis: Analysis) -> None:
    """Draws the offer and the run; a finished one takes the place of the analysis, with the same view."""
    st.text("The rows of this head were not kept exactly, so their bars cannot be drawn.")
    changed = stored_options(analysis.info).get("interventions")
    if READ_ONLY.text() == "1" or changed:  # a changed run is a study's or a notebook's: it is repeated there
        return
    if prompt_of(analysis.info) is None:  # a picture or a sound is not in the file
        return
    title = f"Layer {state.layer} exactly · {analysis.id}"
    if st.button(f"Read the prompt again and keep layer {state.layer} exactly", key="headwater_exact_again_run"):
        try:
            _start(state, analysis, title)
        except HeadwaterError as error:
            st.text(str(error))
    show_when_done(WAITING, "analysis")
    run_cards(title)


def _start(state: ViewState, analysis: Analysis, title: str) -> None:
    """Queues the run for this browser. Refused where the model may not be loaded here."""
    info, choice = analysis.info, model_of(analysis.info)
    name, library, visitor = check_model(choice.name), shelf().own, owner()
    revision = None if choice.packaged else info.get("revision")
    prompt, access = prompt_of(info), beside(analysis.id)
    heads = map_sizes(analysis)[state.kind][state.layer].heads
    options = options_of(info, [(state.layer, head) for head in range(heads)])
    options.check()

    def work(progress, cancel) -> str:
        progress(LOADING, 0, 0, seconds_to_load(name, revision))
        return analyse(
            load(name, revision=revision),
            prompt,
            options=options,
            library=library,
            owner=visitor,
            **access,
            progress=progress,
            cancel=cancel,
        ).id

    key = key_of(name, revision, repr(info["prompt"]), options, access)
    job = process_jobs().submit(title, work, device=usual_device(), owner=visitor, key=key)
    st.session_state.setdefault(STARTED, []).append(job.id)
    st.session_state[WAITING] = job.id


def stored_options(info: dict) -> dict:
    """The options of an analysis; {} where the file has none."""
    given = info.get("options")
    return given if isinstance(given, dict) else {}


def options_of(info: dict, exact: list[tuple[int, int]]) -> Options:
    """Those of an analysis with other exact maps."""
    kept = {name: value for name, value in stored_options(info).items() if name in KEPT}
    return Options(**kept, exact_maps=exact, max_tokens=MAX_TOKENS.integer())


def prompt_of(info: dict) -> Prompt | list[int] | None:
    """The prompt of an analysis, to be read again; None where it is not one of text or token ids alone.

    An imported file may say anything here: a field that is no text of the form it should have is not read.
    """
    given = info.get("prompt")
    if not isinstance(given, dict) or not given:
        return None
    if set(given) == {"token_ids"}:
        ids = given["token_ids"]
        return list(ids) if isinstance(ids, list) and all(type(one) is int for one in ids) else None
    if not all(name in FORMS and FORMS[name](value) for name, value in given.items()):
        return None
    tuples = {"pair": tuple, "examples": lambda pairs: [tuple(pair) for pair in pairs]}
    return Prompt(**{name: tuples.get(name, lambda same: same)(value) for name, value in given.items()})


def _texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _pair(value: object) -> bool:
    return _texts(value) and len(value) == 2


FORMS = {  # field of a prompt -> whether a value has its form
    **dict.fromkeys(("text", "question", "target"), lambda value: isinstance(value, str)),
    "documents": _texts,
    "pair": _pair,
    "examples": lambda value: isinstance(value, list) and all(_pair(one) for one in value),
    "chat": lambda value: isinstance(value, list) and all(isinstance(turn, dict) for turn in value),
    "parse_special": lambda value: isinstance(value, bool),
}

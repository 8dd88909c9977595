"""What do the sinks do? Changes of the prompt and its sinks, StreamingLLM's figure, window with and without sinks."""

from __future__ import annotations

import re

import streamlit as st

from backend.errors import Refused
from backend.sinks.act import FACTOR
from backend.sinks.detection import sink_tokens
from backend.sinks.what_if import EDITS
from backend.studies import sink_whatif as whatif
from backend.studies import sink_window as window
from backend.studies import streaming_figure as streaming
from pages.shared.address import select
from pages.shared.panels import sink_whatif, sink_window, streaming_figure
from pages.shared.panels.page_study import page_study
from pages.shared.panels.readable import readable
from pages.shared.panels.sink_data import SinkData
from pages.shared.view_state import ViewState

KEY = "headwater_sinks_do_"
WAYS = {"change": "Change a sink", "figure": "Logits and weights", "window": "Window with and without sinks"}
WHERE = {"all": "all heads", "layer": "the layer", "head": "the head", "sinks": "heads of which one is a sink"}
OFFERED = 500  # tokens in the list of those that can be hidden
BEGINS = 60  # characters of a prompt in titles


def sink_do(state: ViewState, data: SinkData) -> None:
    """Draws the part."""
    way = state.more("way", "change")
    way = way if way in WAYS else "change"
    st.session_state[KEY + "way"] = way
    st.segmented_control(
        "What is done", list(WAYS), format_func=WAYS.get, key=KEY + "way", on_change=_take_way,
        label_visibility="collapsed",
    )  # fmt: skip
    above = st.container()  # what was found comes first, the form below it
    if way == "change":
        asked, study, panel = change(state, data), whatif.STUDY, sink_whatif
    elif way == "figure":
        asked, study, panel = streaming_figure.parameters(), streaming.STUDY, streaming_figure
    else:
        asked, study, panel = stream(data), window.STUDY, sink_window
    found = page_study(state, study, asked, data.analysis.info)
    if found is not None:
        with above, readable():
            panel.result(state, found)


def change(state: ViewState, data: SinkData) -> whatif.Parameters | None:
    """The changes of the open prompt."""
    if data.kind != "self":
        st.text("What-if is not defined because this model has several stacks of layers.")
        return None
    keys = chosen_keys(data)
    edits = st.pills(
        "Changes", EDITS, format_func=sink_whatif.WORDS.get, selection_mode="multi", default=EDITS, key=KEY + "edits"
    )
    with st.container(horizontal=True, gap="small"):
        where = st.selectbox("Hidden and scaled in", list(WHERE), format_func=WHERE.get, key=KEY + "where")
        factors = st.text_input("Factors of scaling, 0 to 1", f"{FACTOR:g}", key=KEY + "factors", max_chars=100)
        front = st.text_input("Text in front", whatif.FRONT, key=KEY + "front", max_chars=2000)
        swap = st.text_input("Instead of the first token", " the", key=KEY + "swap", max_chars=100)
    heads = chosen_heads(state, data, where, keys)
    if heads is None:
        st.text("No head has one of these tokens as a sink under the limits on the left: choose other heads.")
        return None
    try:
        return whatif.Parameters(
            token_ids=tuple(token.token_id for token in data.tokens),
            words=begins(data),
            edits=tuple(edits),
            keys=keys,
            heads=heads,
            factors=numbers_in(factors or ""),
            front=front or "",
            swap=swap or "",
            epsilon=data.limits.epsilon,
            theta=data.limits.theta,
            least_rows=data.limits.least,
            times=data.limits.detection[2],
        )
    except Refused as error:
        st.text(str(error))
        return None


def chosen_keys(data: SinkData) -> tuple[int, ...]:
    """The tokens that are hidden and scaled together, sinks of most heads first in the list."""
    offered = [token.key for token in sink_tokens(data.found, data.sinks)]
    offered += [key for key in range(len(data.tokens)) if key not in set(offered)]
    key = f"{KEY}keys_{data.analysis.id}_{data.kind}_{data.key}"
    return tuple(
        st.multiselect(
            "Tokens that are hidden and scaled (sinks first)",
            offered[:OFFERED] if data.key in offered[:OFFERED] else [data.key, *offered[:OFFERED]],
            [data.key],
            format_func=lambda key: f"{key} “{data.labels[key]}”",
            key=key,
        )
    )


def numbers_in(text: str) -> tuple[float, ...]:
    """The numbers of a text, apart by spaces or semicolons. Refused where something else stands there."""
    try:
        return tuple(float(part) for part in re.split(r"[;\s]+", text.strip()) if part)
    except ValueError:
        raise Refused(f"Factors: expected numbers apart by spaces, such as 0 0.4, got {text[:40]!r}.") from None


def chosen_heads(
    state: ViewState, data: SinkData, where: str, keys: tuple[int, ...]
) -> tuple[tuple[int, int], ...] | None:
    """The heads that are changed; none = all. None where the choice is empty."""
    if where == "all":
        return ()
    if where == "head":
        return ((state.layer, state.head),)
    if where == "layer":
        heads = data.found.there[data.place(state.layer)].nonzero()[0].tolist()
        return tuple((state.layer, head) for head in heads)
    sinks = data.sinks[:, :, list(keys)].any(-1)
    places = [(data.found.layers[at], head) for at, head in zip(*sinks.nonzero(), strict=True)]
    return tuple((layer, int(head)) for layer, head in places) or None


def stream(data: SinkData) -> window.Parameters | None:
    """Window with and without sinks: of the open prompt, or of the texts that come with Headwater."""
    own = st.toggle("Read the open prompt instead of the texts that come with Headwater", key=KEY + "own")
    ids = tuple(token.token_id for token in data.tokens) if own else ()
    return sink_window.parameters(ids, begins(data) if own else "forty texts")


def begins(data: SinkData) -> str:
    """How the prompt begins."""
    return "".join(token.text for token in data.tokens)[:BEGINS].strip()


def _take_way() -> None:
    chosen = st.session_state[KEY + "way"]
    select(way=None if chosen in (None, "change") else chosen, study=None)

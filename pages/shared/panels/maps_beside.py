"""The maps beside the chosen one, and the one taken away from it: `pins=3.1,5.2` and `minus=` in the address."""

from __future__ import annotations

import re
from dataclasses import replace

import streamlit as st

from backend.errors import Damaged, HeadwaterError, NewerFile, NotFound
from backend.map_sizes import map_sizes
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.map_viewer import OtherMap
from pages.shared.opened import open_study, owner, shelf
from pages.shared.panels.sink_keys import sink_keys
from pages.shared.view_state import ViewState, shorten

MOST_PINS = 6  # maps side by side, the chosen one among them
PIN = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")
CANDIDATES = 40  # analyses of as many tokens that are compared token by token
NONE = "nothing"
KEY = "headwater_beside_"

Head = tuple[int, int]  # layer, head


def pinned_heads(state: ViewState, analysis: Analysis) -> list[Head]:
    """The heads in the address that the analysis has, in their order, each once."""
    heads = dict.fromkeys(head for text in state.more("pins").split(",") if (head := _head(text)))
    return [head for head in heads if _there(analysis, state.kind, head)][:MOST_PINS]


def fit_beside(state: ViewState, analysis: Analysis) -> tuple[ViewState, list[str]]:
    """The view without heads beside or against the chosen one that are not there, and what was left out."""
    notices = []
    texts = [text.strip() for text in state.more("pins").split(",") if text.strip()]
    missing = [text for text in texts if (head := _head(text)) is None or not _there(analysis, state.kind, head)]
    if missing:
        kept = ",".join(text for text in texts if text not in missing) or None
        which, left = ", ".join(map(shorten, missing[:3])), "it is" if len(missing) == 1 else "they are"
        notices.append(f"Side by side (pins): this analysis has no head {shorten(which)!r}; {left} left out.")
        state = state.with_more(pins=kept)
    wanted = state.more("minus")
    if wanted and wanted != f"{state.layer}.{state.head}" and map_against(state, analysis) is None:
        notices.append(
            f"To be taken away (minus): {shorten(wanted)!r} is no head of this analysis and no analysis of the same "
            "tokens with this head; nothing is taken away."
        )
        state = state.with_more(minus=None)
    if state.study is not None:
        try:
            open_study(state.study)
        except (NotFound, Damaged, NewerFile) as error:
            notices.append(f"The study is left out: {error}")
            state = replace(state, study=None)
    return state, notices


def toggle_pin(state: ViewState, analysis: Analysis, head: Head) -> None:
    """Keeps a head beside the others, or takes it away; of more than MOST_PINS the oldest goes."""
    heads = pinned_heads(state, analysis)
    heads = [one for one in heads if one != head] if head in heads else [*heads, head]
    _take_pins(heads[-MOST_PINS:])


def maps_beside(state: ViewState, analysis: Analysis) -> tuple[OtherMap, ...]:
    """The pinned heads other than the chosen one; only those of layers with a map of the same size."""
    sizes = map_sizes(analysis)[state.kind]
    own = sizes[state.layer]
    heads = [head for head in pinned_heads(state, analysis) if head != (state.layer, state.head)]
    alike = [
        (layer, head) for layer, head in heads if (sizes[layer].queries, sizes[layer].keys) == (own.queries, own.keys)
    ]
    return tuple(_map_of(state.analysis, analysis, state.kind, head) for head in alike[: MOST_PINS - 1])


def map_against(state: ViewState, analysis: Analysis) -> OtherMap | None:
    """What `minus` names: a head of this analysis, or the same head of another analysis with the same tokens."""
    wanted = state.more("minus")
    if not wanted:
        return None
    head = _head(wanted)
    if head is not None:
        known = _there(analysis, state.kind, head) and head != (state.layer, state.head)
        return _map_of(state.analysis, analysis, state.kind, head) if known else None
    try:
        found = shelf().open(wanted, owner())
    except HeadwaterError:
        return None
    other = found.analysis
    if not isinstance(other, Analysis) or not _same_tokens(analysis, other):
        return None
    own = (state.layer, state.head)
    return _map_of(wanted, other, state.kind, own, found.entry.title) if _there(other, state.kind, own) else None


def compare(state: ViewState, analysis: Analysis) -> None:
    """The choice of heads beside the map, and of what is taken away from it."""
    heads = [f"{layer}.{head}" for layer, size in map_sizes(analysis)[state.kind].items() for head in range(size.heads)]
    pins = [f"{layer}.{head}" for layer, head in pinned_heads(state, analysis)]
    box = st.popover("Compare", key=KEY + "box", on_change="rerun")
    if not box.open:
        return
    with box:
        st.session_state[KEY + "pins"] = pins
        st.multiselect("Heads side by side", heads, key=KEY + "pins", max_selections=MOST_PINS, on_change=_choose_pins)
        others = dict(_alike(state, analysis))
        options = [NONE, *[head for head in heads if head != f"{state.layer}.{state.head}"], *others]
        wanted = state.more("minus", NONE)
        st.session_state[KEY + "minus"] = wanted if wanted in options else NONE
        st.selectbox(
            f"Take away from {state.layer}.{state.head}",
            options,
            key=KEY + "minus",
            format_func=lambda option: f"same head of: {others[option]}" if option in others else option,
            on_change=_choose_minus,
        )


def _choose_pins() -> None:
    _take_pins([head for text in st.session_state[KEY + "pins"] if (head := _head(text))])


def _choose_minus() -> None:
    chosen = st.session_state[KEY + "minus"]
    select(minus=None if chosen == NONE else chosen)


def _take_pins(heads: list[Head]) -> None:
    select(pins=",".join(f"{layer}.{head}" for layer, head in heads) or None)


def _head(text: str) -> Head | None:
    found = PIN.fullmatch(text.strip())
    return (int(found[1]), int(found[2])) if found else None


def _there(analysis: Analysis, kind: str, head: Head) -> bool:
    size = map_sizes(analysis).get(kind, {}).get(head[0])
    return size is not None and head[1] < size.heads


def _map_of(id: str, analysis: Analysis, kind: str, head: Head, title: str = "") -> OtherMap:
    exact = head[1] in analysis.exact_heads(head[0], kind)
    return OtherMap(id, kind, *head, exact=exact, sinks=sink_keys(analysis, analysis.id, kind, *head), title=title)


def _alike(state: ViewState, analysis: Analysis) -> list[tuple[str, str]]:
    """(id, title) of analyses with the same tokens that have this head."""
    count = analysis.info["n_tokens"]
    entries = [entry for entry in shelf().entries(owner()) if entry.type == "analysis" and entry.id != state.analysis]
    found = []
    for entry in [entry for entry in entries if entry.n_tokens == count][:CANDIDATES]:
        try:
            other = shelf().open(entry.id, owner()).analysis
            if _same_tokens(analysis, other) and _there(other, state.kind, (state.layer, state.head)):
                found.append((entry.id, entry.title))
        except HeadwaterError:
            continue  # a damaged one cannot be compared with; its own page says what is wrong
    return found


def _same_tokens(one: Analysis, other: Analysis) -> bool:
    return _token_ids(one, one.id) == _token_ids(other, other.id)


@st.cache_data(max_entries=256, show_spinner=False)
def _token_ids(_analysis: Analysis, id: str) -> list[tuple[str, int]]:
    return [(token.side, token.token_id) for token in _analysis.tokens_list()]

"""The basin of this prompt: what every part gets, parts against parts, the parts as cards, the heads that make it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.basins.basin import Basin
from backend.basins.profile import shape
from backend.basins.slots import Slots
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.charts.part_heat import part_heat
from pages.shared.charts.ranked_heads import PICKED, ranked_heads
from pages.shared.charts.slot_profile import slot_profile
from pages.shared.panels.basin_cards import basin_cards, texts_of
from pages.shared.panels.basin_data import LOOKING, SCOPES, BasinView, basin_in, between_in, causal, slots_in, view_of
from pages.shared.panels.basin_sentences import basin_sentence, between_sentence, reach_note
from pages.shared.panels.figure import figure
from pages.shared.panels.readable import readable
from pages.shared.view_state import ViewState

KEY = "headwater_basin_"
BY = {"token": "per token", "part": "whole part"}
RANKED = 15


def basin_prompt(state: ViewState, analysis: Analysis) -> None:
    """Draws the part of the page."""
    slots = slots_in(analysis)
    view, said = view_of(state, slots, causal(analysis, state.kind))
    for text in said:
        st.text(text)
    choices(view, slots, causal(analysis, state.kind))
    basin = basin_in(analysis, state.kind, view.looking, view.sinkfree)
    place = view.head(state)
    values = basin.profile(*place, per_token=view.per_token)
    left, right = st.columns([0.58, 0.42], gap="medium")
    with left, readable():
        profile(state, view, basin, values)
    with right, readable():
        matrix(state, view, analysis, basin)
    basin_cards(view, slots, texts_of(analysis, slots), values)
    with readable():
        heads(state, view, basin)


def choices(view: BasinView, slots: Slots, is_causal: bool) -> None:
    """Who looks, whose mean, per token or whole."""
    last = "last" if is_causal else "first"
    rows = [name for name in ("question", last) if name == last or slots.question is not None]
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        for label, name, options, words, value in (
            ("Seen from", "look", rows, LOOKING, view.looking),
            (
                "By",
                "scope",
                list(SCOPES),
                {"model": "all heads", "layer": "this layer", "head": "this head"},
                view.scope,
            ),
            ("Shown", "by", list(BY), BY, "token" if view.per_token else "part"),
        ):
            st.session_state[KEY + name] = value
            st.segmented_control(
                label, options, format_func=words.get, key=KEY + name, on_change=_take, args=(name, options[0])
            )


def _take(name: str, default: str) -> None:
    chosen = st.session_state[KEY + name]
    select(**{name: None if chosen in (None, default) else chosen})


def who(state: ViewState, view: BasinView) -> str:
    """The heads and rows that look, in words."""
    heads = {"model": "all heads", "layer": f"layer {state.layer}", "head": f"head {state.layer}.{state.head}"}[
        view.scope
    ]
    return f"{LOOKING[view.looking]} ({heads}{', without sinks' if view.sinkfree else ''})"


def profile(state: ViewState, view: BasinView, basin: Basin, values: np.ndarray) -> None:
    """The basin itself."""
    place = view.head(state)
    names = basin.slots.names
    uniform = basin.profile(*place, per_token=view.per_token, uniform=True)
    title = "share per token" if view.per_token else "share of the part"
    depth = basin_sentence(names, values, uniform, who(state, view))
    other = basin.profile(*place, per_token=not view.per_token)
    table = pa.table(
        {
            "part": names,
            "tokens": [part.length for part in basin.slots.parts],
            "share_per_token": pa.array((values if view.per_token else other).tolist(), from_pandas=True),
            "share_of_the_part": pa.array((other if view.per_token else values).tolist(), from_pandas=True),
            "uniform": pa.array(uniform.tolist(), from_pandas=True),
        }
    )
    figure(
        "basin_of_the_prompt",
        slot_profile(names, values, uniform, title=title, gold=view.gold),
        sentence=depth,
        table=table,
        terms=("part_mass_per_token" if view.per_token else "part_mass", "basin_depth", "primacy_recency"),
        note=reach_note(basin),
    )


def matrix(state: ViewState, view: BasinView, analysis: Analysis, basin: Basin) -> None:
    """Parts against parts."""
    chosen = basin.chosen(*view.head(state))
    places = tuple(place for place, there in zip(basin.places, chosen, strict=True) if there)
    found = between_in(analysis, state.kind, places, view.sinkfree)
    columns = [*found.names, "other"]
    table = pa.table(
        {
            "gives": list(found.names),
            **{n: pa.array(found.mass[:, at].tolist(), from_pandas=True) for at, n in enumerate(columns)},
        }
    )
    figure(
        "parts_against_parts",
        part_heat(found.names, columns, found.mass, palette=state.palette),
        sentence=between_sentence(found),
        table=table,
        terms=("between_parts",),
    )


def heads(state: ViewState, view: BasinView, basin: Basin) -> None:
    """The heads whose profile is deepest."""
    masses = basin.masses(per_token=True)
    depths = [(place, shape(masses[at]).depth) for at, place in enumerate(basin.places)]
    known = sorted(((place, depth) for place, depth in depths if depth is not None), key=lambda one: -one[1])
    if not known:
        st.text("No head has a depth: a basin needs three parts that the rows can see.")
        return
    labels = [f"{layer}.{head}" for (layer, head), _ in known]
    figure(
        "heads_of_the_basin",
        ranked_heads(
            labels[:RANKED],
            [depth for _, depth in known[:RANKED]],
            selected=f"{state.layer}.{state.head}",
            title="depth of the basin",
            uniform=0.0,
        ),
        sentence=f"The {min(RANKED, len(known))} heads with the deepest basin of {len(known)}, seen from "
        f"{LOOKING[view.looking]}; click one to see it.",
        table=pa.table({"head": labels, "depth": [depth for _, depth in known]}),
        terms=("basin_depth",),
        note="The depth of one head on one order mixes position and content; the permutation study takes them apart.",
        on_pick=_take_head,
        pick=PICKED,
    )


def _take_head() -> None:
    points = st.session_state["heads_of_the_basin_chart"].selection.get(PICKED, [])
    name = str(points[0].get("head", "")) if points else ""
    layer, _, head = name.partition(".")
    if layer.isdecimal() and head.isdecimal():
        select(layer=int(layer), head=int(head), scope="head")

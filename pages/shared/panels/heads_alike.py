"""How alike heads are: a map of all heads with groups, and the heads most like the chosen one."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.errors import Refused
from backend.head_similarity import Similarity, clusters, compare_heads
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.charts.head_places import PICKED, SHAPES, head_places
from pages.shared.panels.atlas_data import atlas_of, labels_in_words, limits_of
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

KEY = "heads_alike"
GROUPS = 6  # unless the address says otherwise
LISTED = 8


def heads_alike(state: ViewState, analysis: Analysis) -> None:
    """Draws the map of heads and the list of like ones."""
    try:
        found = similarity_of(analysis, state.kind)
    except Refused as error:
        st.text(str(error))
        return
    text = state.more("groups")
    count = int(text) if text.isdecimal() and 1 <= int(text) <= len(SHAPES) else min(GROUPS, len(found.heads))
    group = clusters(np.sqrt(found.divergence), count)
    atlas = atlas_of(state, analysis)
    labels = {place: labels_in_words(given, atlas.probed) for place, given in atlas.labels(limits_of(state)).items()}
    alike = found.like(state.layer, state.head, LISTED)
    picture, listed = st.columns([0.6, 0.4], gap="medium")
    with picture:
        figure(
            KEY,
            head_places(points_of(found, group, alike, labels, (state.layer, state.head))),
            sentence=sentence(found, group),
            table=places_table(found, group),
            terms=("divergence_of_heads", "map_of_heads", "group_of_heads"),
            note=note(found),
            on_pick=take_head,
            pick=PICKED,
        )
    with listed:
        st.session_state[KEY + "_groups"] = count
        st.slider("Groups", 1, len(SHAPES), key=KEY + "_groups", on_change=take_groups)
        like_list(state, found, alike, labels)


def similarity_of(analysis: Analysis, kind: str) -> Similarity:
    """Compared once per analysis; a bar says how far it is, and another choice stops it."""
    return _similarity(analysis, analysis.id, kind)


@st.cache_resource(max_entries=8, show_spinner=False)
def _similarity(_analysis: Analysis, id: str, kind: str) -> Similarity:
    bar = st.progress(0.0, "Comparing the heads")
    found = compare_heads(_analysis, kind, lambda share: bar.progress(min(share, 1.0), "Comparing the heads"))
    bar.empty()
    return found


def points_of(found: Similarity, group: np.ndarray, alike: list, labels: dict, selected: tuple[int, int]) -> list[dict]:
    """One point per head."""
    near = {(layer, head) for layer, head, _ in alike}
    own = found.heads.index(selected) if selected in found.heads else None
    points = []
    for at, (layer, head) in enumerate(found.heads):
        role = "selected" if (layer, head) == selected else "alike" if (layer, head) in near else ""
        points.append(
            {
                "layer": layer,
                "head": head,
                "name": f"{layer}.{head}",
                "x": float(found.places[at, 0]),
                "y": float(found.places[at, 1]),
                "group": str(group[at]),
                "role": role,
                "distance": "" if own is None else f"{found.divergence[own, at]:.4f} nats",
                "labels": labels.get((layer, head), "") or "no label",
            }
        )
    return points


def sentence(found: Similarity, group: np.ndarray) -> str:
    """How large the groups are, and how much of the truth the plane shows."""
    sizes = ", ".join(str(size) for size in np.bincount(group))
    return (
        f"{len(found.heads)} heads in {group.max() + 1} groups of {sizes}. The plane holds {found.shown:.0%} of the "
        "squared distances: heads that look close may still differ."
    )


def note(found: Similarity) -> str:
    """What was compared and what was not."""
    text = f"Sampled: compared on {len(found.rows)} rows"
    text += f", each shortened to {found.bins} keys and blocks of keys." if found.merged else ", every key of them."
    one = found.missing == 1
    left_out = f" {found.missing} head{'' if one else 's'} without exact maps {'is' if one else 'are'} left out."
    return text + (left_out if found.missing else "")


def places_table(found: Similarity, group: np.ndarray) -> pa.Table:
    """The places and groups of all heads."""
    return pa.table(
        {
            "head": [f"{layer}.{head}" for layer, head in found.heads],
            "group": pa.array(group, pa.int64()),
            "x": found.places[:, 0],
            "y": found.places[:, 1],
        }
    )


def like_list(state: ViewState, found: Similarity, alike: list, labels: dict) -> None:
    """Heads like this one; a click on a row shows that head."""
    if not alike:
        st.text(f"Head {state.layer}.{state.head} has no exact map, so it was not compared.")
        return
    st.text(f"Heads like {state.layer}.{state.head}, most alike first, by their divergence")
    table = pa.table(
        {
            "head": [f"{layer}.{head}" for layer, head, _ in alike],
            "nats": [value for _, _, value in alike],
            "of ln 2": [f"{value / math.log(2):.1%}" for _, _, value in alike],
            "labels": [labels.get((layer, head), "") for layer, head, _ in alike],
        }
    )
    st.session_state[KEY + "_places"] = table["head"].to_pylist()
    st.dataframe(table, hide_index=True, key=KEY + "_list", on_select=take_row, selection_mode="single-row")


def take_groups() -> None:
    count = st.session_state[KEY + "_groups"]
    select(groups=None if count == GROUPS else str(count))


def take_head() -> None:
    points = st.session_state[f"{KEY}_chart"].selection.get(PICKED, [])
    if points and all(isinstance(points[0].get(name), int) for name in ("layer", "head")):
        select(layer=points[0]["layer"], head=points[0]["head"])


def take_row() -> None:
    rows = st.session_state[KEY + "_list"].selection.rows
    places = st.session_state.get(KEY + "_places", [])
    if rows and rows[0] < len(places):
        layer, _, head = places[rows[0]].partition(".")
        select(layer=int(layer), head=int(head))

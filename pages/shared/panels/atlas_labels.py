"""Which head does what: labels by rules, each with its score, and the lines they draw, which anybody may move."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import streamlit as st

from backend import head_labels
from backend.atlas import Atlas
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.charts.labelled_heads import NONE, PICKED, labelled_heads
from pages.shared.panels.atlas_data import LIMIT, atlas_of, labels_in_words, limits_of
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

KEY = "atlas_labels"
LISTED = KEY + "_list"
ONLY = KEY + "_only"


def atlas_labels(state: ViewState, analysis: Analysis) -> None:
    """Draws the grid of labels, the list of heads and the limits."""
    atlas = atlas_of(state, analysis)
    limits = limits_of(state)
    labels = atlas.labels(limits)
    only = state.more("label")
    only = only if only in head_labels.all() else ""
    words = {name: label.words for name, label in head_labels.all().items()}
    picture, listed = st.columns([0.45, 0.55], gap="medium")
    with picture:
        figure(
            KEY,
            chart_of(atlas, labels, (state.layer, state.head), only),
            sentence=sentence(labels),
            table=table_of(atlas, labels),
            terms=tuple(f"{name}_label" for name in head_labels.all()),
            note=note(atlas, limits),
            on_pick=take_head,
            pick=PICKED,
        )
    with listed:
        counts = Counter(name for found in labels.values() for name in found)
        st.session_state[ONLY] = only or None
        st.pills(
            "Only heads with the label",
            list(words),
            format_func=lambda name: f"{words[name]} {counts[name]}",
            key=ONLY,
            wrap=True,
            on_change=lambda: select(label=st.session_state[ONLY]),
        )
        heads_list(atlas, labels, only)
        with st.expander("Limits"):
            limit_fields(limits)


def sentence(labels: dict[tuple[int, int], dict[str, float]]) -> str:
    """How many heads have which label."""
    counts = Counter(name for found in labels.values() for name in found)
    parts = [f"{counts[name]} {label.words}" for name, label in head_labels.all().items() if counts[name]]
    without = sum(not found for found in labels.values())
    named = f"Of {len(labels)} heads: {', '.join(parts)}" if parts else f"None of {len(labels)} heads fits a rule"
    return f"{named}; {without} without a label. A head may have several."


def note(atlas: Atlas, limits: dict[str, float]) -> str:
    """Where the numbers behind the labels come from."""
    text = "Labels say what a head did in this text; another text may give others."
    if atlas.probed:
        names = ", ".join(sorted(name.replace("_", " ") for name in atlas.probed))
        text += f" Measured on random repeated tokens instead of this text: {names}."
    else:
        text += " Induction and duplicate are surer from the random-repeat study (Probe, above)."
    moved = "One limit is" if len(limits) == 1 else f"{len(limits)} limits are"
    return text + (f" {moved} moved." if limits else "")


def chart_of(atlas: Atlas, labels: dict, selected: tuple[int, int], only: str):
    """The grid; with a filter, only that label is coloured."""
    heads = []
    for (layer, head), found in labels.items():
        shown = only if only in found else next(iter(found), None) if not only else None
        words = head_labels.all()[shown].words if shown else NONE
        heads.append(
            {"layer": layer, "head": head, "label": words, "labels": labels_in_words(found, atlas.probed) or NONE}
        )
    names = [label.words for label in head_labels.all().values()]
    return labelled_heads(heads, names, layers=atlas.layers, most=max(atlas.heads), selected=selected)


def table_of(atlas: Atlas, labels: dict, only: str = "") -> pa.Table:
    """One row per head: labels with scores, and every number a rule looks at."""
    chosen = [place for place, found in labels.items() if not only or only in found]
    if only:
        chosen.sort(key=lambda place: -labels[place][only])
        if not head_labels.all()[only].conditions[0].above:
            chosen.reverse()
    columns = {
        "head": pa.array([f"{layer}.{head}" for layer, head in chosen], pa.string()),
        "labels": pa.array([labels_in_words(labels[place], atlas.probed) for place in chosen], pa.string()),
    }
    numbers = [atlas.of(*place) for place in chosen]
    for name in head_labels.conditions():
        values = [row[name] if row[name] == row[name] else None for row in numbers]
        columns[name.replace("_", " ")] = pa.array(values, pa.float64())
    return pa.table(columns)


def heads_list(atlas: Atlas, labels: dict, only: str) -> None:
    """The heads as a list; a click on a row shows that head."""
    table = table_of(atlas, labels, only)
    if table.num_rows == 0:
        st.text("No head has this label with these limits.")
        return
    st.session_state[LISTED + "_places"] = table["head"].to_pylist()
    st.dataframe(
        table,
        hide_index=True,
        height=min(36 * (table.num_rows + 1) + 20, 420),
        key=LISTED,
        on_select=take_row,
        selection_mode="single-row",
    )


def limit_fields(limits: dict[str, float]) -> None:
    """One field per condition, with its default and where that comes from."""
    columns = st.columns(3)
    for at, (name, condition) in enumerate(head_labels.conditions().items()):
        key = f"{KEY}_limit_{name}"
        st.session_state[key] = limits.get(name, condition.limit)
        words = condition.score.replace("_", " ") + (" / uniform" if condition.relative else "")
        source = condition.source or "chosen by Headwater"
        columns[at % 3].number_input(
            f"{words} {'above' if condition.above else 'below'}",
            min_value=0.0,
            step=0.05,
            format="%.3g",
            key=key,
            help=f"{condition.limit:g}: {source}",
            on_change=take_limit,
            args=(name, condition.limit, key),
        )
    if limits:
        st.button("All limits as they were", on_click=lambda: select(**{LIMIT + name: None for name in limits}))


def take_limit(name: str, default: float, key: str) -> None:
    value = st.session_state[key]
    select(**{LIMIT + name: None if value is None or value == default else f"{value:.6g}"})


def take_head() -> None:
    points = st.session_state[f"{KEY}_chart"].selection.get(PICKED, [])
    if points and all(isinstance(points[0].get(name), int) for name in ("layer", "head")):
        select(layer=points[0]["layer"], head=points[0]["head"])


def take_row() -> None:
    rows = st.session_state[LISTED].selection.rows
    places = st.session_state.get(LISTED + "_places", [])
    if rows and rows[0] < len(places):
        layer, _, head = places[rows[0]].partition(".")
        select(layer=int(layer), head=int(head))

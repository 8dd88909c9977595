"""The permutation study: what the place gives, what the content gives, which heads do it, what the answer does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.basins.relevance import spearman
from backend.store import Study
from backend.studies.permutation import Parameters
from pages.shared.address import select
from pages.shared.charts.answer_by_place import answer_by_place
from pages.shared.charts.effect_bars import effect_bars
from pages.shared.charts.layer_head_heat import PICKED, layer_head_heat
from pages.shared.charts.slot_profile import slot_profile
from pages.shared.panels.basin_sentences import depth_sentence, percent
from pages.shared.panels.basin_studies import START_THERE, VIEWS, column, gold_of, part_names, view_name
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

SHORT_R2 = 0.5  # below it the additive fit says little


def parameters() -> Parameters:
    """Draws the choices of the form on the page of studies."""
    st.text(START_THERE)
    return Parameters()


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """Nothing of the address depends on the study."""
    return state, []


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found."""
    view = view_name(state)
    left, right = st.columns([0.62, 0.38], gap="medium")
    with left:
        profile(state, study, view)
        answers(state, study, view)
        contents(study, view)
    with right:
        heads(state, study, view)


def profile(state: ViewState, study: Study, view: str) -> None:
    """What a place gets whatever stands there."""
    table = study.table("profile", view=view).sort_by("slot")
    rows = table.to_pylist()
    mean, low, high, uniform = (np.array(column(rows, name)) for name in ("mean", "low", "high", "uniform"))
    fit = study.table("model", view=view).to_pylist()[0]
    word = part_names(study.info["parameters"])[0].rpartition(" ")[0]
    figure(
        "basin_over_shifts",
        slot_profile(
            [f"place {slot + 1}" for slot in range(len(rows))],
            mean,
            uniform,
            title="share per token",
            low=low,
            high=high,
        ),
        sentence=f"Whatever {word} stands there, seen from {VIEWS[view]}: {depth_sentence(mean)} {fit_sentence(fit)}",
        table=table,
        terms=("slot_profile", "basin_depth", "additive_fit"),
        note=f"{study.info['runs']} shifts; the lines on the bars are 95 % intervals over them.",
    )


def fit_sentence(fit: dict) -> str:
    """How much place and content explain."""
    if fit["r2"] is None:
        return "Nothing differs between places and parts, so there is nothing to explain."
    weak = "; the sum of the two says little here" if fit["r2"] < SHORT_R2 else ""
    return (
        f"Of the differences between shifts and places, the place explains {percent(fit['r2_position'])} and the "
        f"content {percent(fit['r2_content'])}, together R2 = {fit['r2']:.2f}{weak}."
    )


def heads(state: ViewState, study: Study, view: str) -> None:
    """Which heads follow the place, and which the content."""
    rows = study.table("heads", view=view).to_pylist()
    layers = sorted({row["layer"] for row in rows})
    values = np.full((len(layers), 1 + max(row["head"] for row in rows)), np.nan)
    for row in rows:
        if row["r2_position"] is not None:
            values[layers.index(row["layer"]), row["head"]] = row["r2_position"]
    known = [row for row in rows if row["r2_position"] is not None and row["depth"] is not None]
    deep = sorted(known, key=lambda row: -row["depth"])
    text = "No head has a depth that is defined."
    if deep:
        place = sum(row["r2_position"] > row["r2_content"] for row in known)
        text = (
            f"{place} of {len(known)} heads follow the place more than the content. The deepest basin is that of head "
            f"{deep[0]['layer']}.{deep[0]['head']} (depth {deep[0]['depth']:.2f}, place "
            f"{percent(deep[0]['r2_position'])} of the differences)."
        )
    chosen = None if state.layer is None or state.head is None else (state.layer, state.head)
    figure(
        "heads_that_follow_the_place",
        layer_head_heat(layers, values, title="explained by place", selected=chosen, palette=state.palette),
        sentence=text,
        table=pa.Table.from_pylist(sorted(rows, key=lambda row: -(row["depth"] or -9.0))),
        terms=("additive_fit", "basin_depth"),
        on_pick=_take_head,
        pick=PICKED,
    )


def _take_head() -> None:
    points = st.session_state["heads_that_follow_the_place_chart"].selection.get(PICKED, [])
    if points and all(isinstance(points[0].get(name), int) for name in ("layer", "head")):
        select(layer=points[0]["layer"], head=points[0]["head"])


def contents(study: Study, view: str) -> None:
    """What a part gets beyond the mean, wherever it stands."""
    table = study.table("contents", view=view).sort_by("part")
    values = np.array(column(table.to_pylist(), "content"))
    names = part_names(study.info["parameters"])
    order = np.argsort(-np.nan_to_num(values), kind="stable")
    best = order[0]
    figure(
        "content_of_the_parts",
        effect_bars([names[at] for at in order], values[order], title="share per token beyond the mean"),
        sentence=f"Taken apart from its place, {names[best]} gets most: {percent(values[best])} per token beyond the "
        "mean of all parts.",
        table=table,
        terms=("additive_fit",),
    )


def answers(state: ViewState, study: Study, view: str) -> None:
    """The reference answer in every shift."""
    rows = study.table("answers").sort_by("shift").to_pylist()
    if all(row["logprob"] is None for row in rows):
        st.text("No reference answer was given, so only attention is reported.")
        return
    values = np.array(column(rows, "logprob"))
    gold = gold_of(state, len(part_names(study.info["parameters"])))
    if gold is None:
        st.text(
            f"The reference answer has a ln probability between {values.min():.2f} and {values.max():.2f} over the "
            "shifts. Mark the part that holds it (Where does it look?) to see it by place."
        )
        return
    place = {row["shift"]: row["slot"] for row in study.table("shifts", part=gold).to_pylist()}
    at = [place[row["shift"]] for row in rows]
    mean = column(study.table("profile", view=view).sort_by("slot").to_pylist(), "mean")
    rho = spearman([mean[slot] for slot in at], values)
    order = np.argsort(at)
    with_attention = "undefined (nothing varies)" if rho is None else f"{rho:.2f}"
    figure(
        "answer_by_place",
        answer_by_place([at[i] for i in order], values[order], title="ln probability of the answer"),
        sentence=f"The answer is most probable with its part at place {at[int(values.argmax())] + 1} (ln p "
        f"{values.max():.2f}) and least at place {at[int(values.argmin())] + 1} ({values.min():.2f}). Rank correlation "
        f"with what the place gets: {with_attention}.",
        table=pa.table({"place": [one + 1 for one in at], "ln_probability": values.tolist()}),
        terms=("answer_logprob",),
        note="One text per place: a difference between two places may be chance.",
    )

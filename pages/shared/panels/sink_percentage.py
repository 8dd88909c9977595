"""The sink percentage of a model: what may be chosen about it, and what it found, beside published values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.errors import Refused
from backend.sinks.percentage import sink_percentage
from backend.sinks.published import EPSILON, LENGTH, PUBLISHED
from backend.store import Study
from backend.studies.sink_percentage import SETS, Parameters, first_of
from pages.shared.address import select
from pages.shared.charts.layer_head_heat import PICKED, layer_head_heat
from pages.shared.charts.limit_curves import limit_curves
from pages.shared.charts.percent_dots import percent_dots
from pages.shared.panels.figure import figure
from pages.shared.panels.prompt_source import prompt_source
from pages.shared.panels.sink_settings import PLAIN, share_of
from pages.shared.view_state import ViewState

KEY = "headwater_percentage_"
WORDS = {"natural": "natural text", "random": "random tokens", "repeated": "one token repeated"}
LIMITS = np.linspace(0.0, 1.0, 51)


def parameters() -> Parameters | None:
    """Draws the choices; None where they give none, which it says."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        sets = st.pills("Texts", SETS, format_func=WORDS.get, selection_mode="multi", default=SETS, key=KEY + "sets")
        samples = st.number_input("Samples of each", 1, 1000, 32, key=KEY + "samples")
        length = st.number_input("Tokens of each", 2, 100_000, LENGTH, key=KEY + "length")
        seed = st.number_input("Seed", 0, 2**31 - 1, 0, key=KEY + "seed")
    try:
        found = prompt_source(KEY, "Natural texts", "Forty that come with Headwater")
        if found is None:
            return None
        return Parameters(tuple(sets), int(samples), int(length), EPSILON, int(seed), found[1].texts)
    except Refused as error:
        st.text(str(error))
        return None


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """The nearest view that the study has."""
    there = study.table("heads")["layer"].to_pylist()
    if state.layer is not None and state.layer not in there:
        return replace(state, layer=None, head=None), [f"The study has no layer {state.layer}."]
    return state, []


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found, for the epsilon of the address."""
    epsilon = share_of(state, "epsilon", float(study.info["parameters"].get("epsilon", PLAIN.epsilon)))
    samples = study.table("samples").to_pylist()
    first = {name: first_of([row for row in samples if row["set"] == name]) for name in sets_of(study)}
    summary = {row["set"]: row for row in study.table("summary").to_pylist()}
    dots, curve = st.columns(2, gap="medium")
    with dots:
        percentages(study, first, summary, epsilon)
    with curve:
        over_epsilon(study, first, summary, epsilon)
    heads(state, study, first, epsilon)


def sets_of(study: Study) -> list[str]:
    """The sets of texts that the study read."""
    return [row["set"] for row in study.table("summary").to_pylist()]


def percentages(study: Study, first: dict[str, np.ndarray], summary: dict, epsilon: float) -> None:
    """The sink percentage of each kind of text with its interval."""
    found = {name: sink_percentage(values, epsilon) for name, values in first.items()}
    rows = [
        {"set": WORDS[name], "percent": one.percent, "low": one.low, "high": one.high, "samples": one.samples}
        for name, one in found.items()
    ]
    length = int(study.info["parameters"]["length"])
    comparable = length == LENGTH and epsilon == EPSILON
    others = [
        {"set": WORDS[one.texts], "percent": one.percent, "model": one.model, "source": one.source}
        for one in PUBLISHED
        if comparable and one.texts in first
    ]
    told = "; ".join(f"{WORDS[name]} {interval_of(one)}" for name, one in found.items())
    learned = max(row["learned"] for row in summary.values())
    note = (
        f"Hollow marks are what others measured on other models ({PUBLISHED[0].source}); no results of Headwater."
        if others
        else f"Published values are for {LENGTH} tokens and ε = {EPSILON:g} and are shown only beside those."
    )
    if learned > 0:
        note += f" The model has learned sinks, which take {learned:.1%}: a low percentage is by design."
    figure(
        "percentage_sets",
        percent_dots(rows, others),
        sentence=f"Sink heads at {length} tokens and ε = {epsilon:g}, mean over samples, 95 % interval: {told}.",
        note=note,
        table=pa.Table.from_pylist([{**row, "epsilon": epsilon, "length": length} for row in rows]),
        terms=("sink_percentage", "sink_head"),
    )


def interval_of(one) -> str:
    """A percentage with its interval in words."""
    if one.low is None:
        return f"{one.percent:.1f} % (one sample, no interval)"
    return f"{one.percent:.1f} % ({one.low:.1f} to {one.high:.1f}, {one.samples} samples)"


def over_epsilon(study: Study, first: dict[str, np.ndarray], summary: dict, epsilon: float) -> None:
    """The percentage for every epsilon."""
    curves = {WORDS[n]: [sink_percentage(v, limit).percent for limit in LIMITS] for n, v in first.items()}
    levels = [row["uniform"] for row in summary.values() if row["uniform"] is not None]
    uniform = max(levels) if levels else None
    table = pa.table({"epsilon": LIMITS, **{name.replace(" ", "_"): values for name, values in curves.items()}})
    figure(
        "percentage_epsilon",
        limit_curves(LIMITS, curves, chosen=epsilon, x_title="ε", y_title="heads above ε (%)", uniform=uniform),
        sentence="The limit decides: the same run for every ε. The dashed lines are the chosen ε"
        + ("." if uniform is None else f" and uniform attention ({uniform:.3f}), above which no head of it would be."),
        table=table,
        terms=("sink_percentage",),
    )


def heads(state: ViewState, study: Study, first: dict[str, np.ndarray], epsilon: float) -> None:
    """Mean importance of the first token in every head."""
    name = state.more("texts", next(iter(first)))
    name = name if name in first else next(iter(first))
    st.session_state[KEY + "shown"] = name
    st.segmented_control("Heads on", list(first), format_func=WORDS.get, key=KEY + "shown", on_change=_take_texts)
    table = study.table("heads")
    table = table.filter(pa.array([value == name for value in table["set"].to_pylist()]))
    rows = table.to_pylist()
    layers = sorted({row["layer"] for row in rows})
    grid = np.full((len(layers), 1 + max(row["head"] for row in rows)), np.nan)
    for row in rows:
        if row["importance"] is not None:
            grid[layers.index(row["layer"]), row["head"]] = row["importance"]
    always = sum(row["above"] == 1.0 for row in rows if row["above"] is not None)
    figure(
        "percentage_heads",
        layer_head_heat(layers, grid, title=f"importance of the first token, {WORDS[name]}", palette=state.palette,
                        selected=None if state.layer is None or state.head is None else (state.layer, state.head)),
        sentence=f"{always} of {len(rows)} heads are sink heads in every sample of {WORDS[name]}.",
        table=table,
        terms=("importance", "sink_head"),
        on_pick=_take_head,
        pick=PICKED,
    )  # fmt: skip


def _take_texts() -> None:
    select(texts=st.session_state[KEY + "shown"])


def _take_head() -> None:
    points = st.session_state["percentage_heads_chart"].selection.get(PICKED, [])
    if points and all(isinstance(points[0].get(name), int) for name in ("layer", "head")):
        select(layer=points[0]["layer"], head=points[0]["head"])

"""Do the sinks hold? A set of prompts: pasted, uploaded, or the bundled one; mean, spread, lengths."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.errors import Refused
from backend.store import Study
from backend.studies.sink_sets import Parameters
from pages.shared.address import select
from pages.shared.charts.layer_head_heat import PICKED, layer_head_heat
from pages.shared.charts.set_by_length import set_by_length
from pages.shared.charts.token_type_bars import token_type_bars
from pages.shared.panels.figure import figure
from pages.shared.panels.prompt_source import prompt_source
from pages.shared.panels.sink_settings import PLAIN, SinkSettings
from pages.shared.view_state import ViewState

KEY = "headwater_sets_"
BUNDLED = "Forty texts that come with Headwater"


def parameters(limits: SinkSettings = PLAIN) -> Parameters | None:
    """Draws the choices; None where they give none, which it says."""
    try:
        found = prompt_source(KEY, "Prompts", BUNDLED)
        if found is None:
            return None
        name, chosen = found
        with st.container(horizontal=True, gap="small"):
            lengths = st.text_input("Lengths in tokens, several numbers", "16 32 64", key=KEY + "lengths") or ""
            longest = st.number_input("Whole prompts up to", 2, 100_000, 512, key=KEY + "longest")
        return Parameters(
            texts=chosen.texts,
            left_out=tuple((one.line, one.reason) for one in chosen.left_out),
            name=name,
            lengths=tuple(int(number) for number in re.findall(r"\d{1,6}", lengths)),
            longest=int(longest),
            epsilon=limits.epsilon,
            theta=limits.theta,
            least_rows=limits.least,
            times=limits.detection[2],
        )
    except Refused as error:
        st.text(str(error))
        return None


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """Nothing of the address depends on the study."""
    return state, []


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found."""
    by_length(study)
    left, right = st.columns(2, gap="medium")
    with left:
        heads(state, study)
    with right:
        kinds(study)


def name_of(length: int) -> str:
    """A length in words."""
    return str(length) if length else "whole"


def by_length(study: Study) -> None:
    """Every prompt at every length."""
    asked = study.info["parameters"]
    lengths = [row for row in study.table("lengths").to_pylist() if row["prompts"]]
    prompts = [row for row in study.table("prompts").to_pylist() if row["note"] is None]
    if not lengths:
        st.text("No prompt of the set could be measured; the table says why, prompt by prompt.")
        st.dataframe(study.table("prompts"), hide_index=True)
        return
    most = max(row["prompt"] for row in prompts) + 1
    dots = [
        {
            "name": name_of(0 if row["whole"] else row["length"]),
            "begins": row["begins"],
            "tokens": row["length"],
            "percent": row["percent"],
            "place": row["prompt"] / most,
        }
        for row in prompts
    ]
    means = [
        {
            **row,
            "name": name_of(row["length"]),
            "from_": None if row["spread"] is None else max(0.0, row["percent"] - row["spread"]),
            "to": None if row["spread"] is None else min(100.0, row["percent"] + row["spread"]),
        }
        for row in lengths
    ]
    told = "; ".join(mean_of(row) for row in lengths)
    missing = [row for row in study.table("prompts").to_pylist() if row["note"] is not None]
    left_out = study.table("left_out").to_pylist()
    notes = [f"Uniform attention has no sink head where ε = {asked['epsilon']:g} is above its importance of token 0."]
    if missing:
        notes.append(
            f"{len(missing)} readings were not possible (the prompt is shorter than the length): see the table."
        )
    if left_out:
        notes.append(f"{len(left_out)} lines of the set were left out, the first is line {left_out[0]['line']}: "
                     f"{left_out[0]['reason']}.")  # fmt: skip
    figure(
        "sets_lengths",
        set_by_length(dots, means),
        sentence=f"Sink heads at ε = {asked['epsilon']:g}, mean ± standard deviation over prompts: {told}.",
        note=" ".join(notes),
        table=study.table("prompts"),
        terms=("sink_percentage", "sink_mass"),
    )


def mean_of(row: dict) -> str:
    """One length in words."""
    spread = "" if row["spread"] is None else f" ± {row['spread']:.1f}"
    mass = "" if row["sink_mass"] is None else f", {row['sink_mass']:.0%} of attention on sinks"
    length = f"{row['length']} tokens" if row["length"] else "whole prompts"
    return f"{length} {row['percent']:.1f} %{spread} ({row['prompts']} prompts{mass})"


def heads(state: ViewState, study: Study) -> None:
    """In how many prompts each head is a sink head."""
    table = study.table("heads")
    rows = table.to_pylist()
    if not rows:
        return
    layers = sorted({row["layer"] for row in rows})
    grid = np.full((len(layers), 1 + max(row["head"] for row in rows)), np.nan)
    for row in rows:
        grid[layers.index(row["layer"]), row["head"]] = row["above"]
    always, never = (sum(row["above"] == value for row in rows) for value in (1.0, 0.0))
    chosen = None if state.layer is None or state.head is None else (state.layer, state.head)
    figure(
        "sets_heads",
        layer_head_heat(layers, grid, title="share of prompts", palette=state.palette, selected=chosen),
        sentence=f"{always} of {len(rows)} heads are sink heads in every prompt, {never} in none; the others depend on "
        "the text.",
        table=table,
        terms=("sink_head",),
        on_pick=_take_head,
        pick=PICKED,
    )


def kinds(study: Study) -> None:
    """Which kinds of token are sinks over the whole set."""
    rows = study.table("types").to_pylist()
    pairs, tokens = (sum(row[name] for row in rows) for name in ("pairs", "tokens"))
    if not pairs:
        st.text("No token of the set is a sink, so there are no kinds to show.")
        return
    rows.sort(key=lambda row: -row["pairs"])
    best = rows[0]
    figure(
        "sets_types",
        token_type_bars(
            [row["type"] for row in rows],
            [row["pairs"] / pairs for row in rows],
            [row["tokens"] / tokens for row in rows],
        ),
        sentence=f"{best['pairs'] / pairs:.0%} of all pairs of a head and its sink are of the kind “{best['type']}”, "
        f"which is {best['tokens'] / tokens:.0%} of the tokens (the tick).",
        table=pa.Table.from_pylist(rows),
        terms=("detected_sink",),
    )


def _take_head() -> None:
    points = st.session_state["sets_heads_chart"].selection.get(PICKED, [])
    if points and all(isinstance(points[0].get(name), int) for name in ("layer", "head")):
        select(layer=points[0]["layer"], head=points[0]["head"])

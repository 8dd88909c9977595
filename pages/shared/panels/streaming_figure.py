"""StreamingLLM's figure for the model at hand: logits and probabilities, layers by position, or the map of a layer."""

from __future__ import annotations

import streamlit as st

from backend.basins.prose import sentences_in
from backend.errors import Refused
from backend.store import Study
from backend.studies.streaming_figure import MOST_LENGTH, Parameters
from pages.shared.charts.layer_position_heat import layer_position_heat
from pages.shared.panels.figure import figure
from pages.shared.panels.prompt_source import prompt_source
from pages.shared.view_state import ViewState

KEY = "headwater_streaming_"
MOST_SAMPLES = 1000


def parameters() -> Parameters | None:
    """Draws the choices."""
    plain = Parameters()
    try:
        found = prompt_source(KEY, "Sentences", "From forty texts that come with Headwater")
        if found is None:
            return None
        texts = found[1].texts
        there = sum(len(sentences_in(text)) for text in texts) or plain.samples
        with st.container(horizontal=True, gap="small"):
            few = min(there, plain.samples)
            samples = st.number_input("How many", 1, MOST_SAMPLES, few, key=f"{KEY}samples_{few}")
            length = st.number_input("Tokens of each", 2, MOST_LENGTH, plain.length, key=KEY + "length")
        if texts:
            st.text(
                f"The texts are cut into {there:,} sentences; those of fewer tokens are not read, longer ones are cut."
            )
        return Parameters(int(samples), int(length), texts)
    except Refused as error:
        st.text(str(error))
        return None


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """Nothing of the address depends on the study."""
    return state, []


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found."""
    asked = study.info["parameters"]
    table = study.table("positions")
    rows = table.to_pylist()
    averaged = (
        f"Each cell is the mean over {asked['samples']} sentences of {asked['length']} tokens, all heads of the layer, "
        "and the rows that see the key."
    )
    left, right = st.columns(2, gap="medium")
    for box, column, title in (
        (left, "logit", "mean logit (before the softmax)"),
        (right, "probability", "mean probability (after it)"),
    ):
        with box:
            figure(
                f"streaming_{column}",
                layer_position_heat(
                    [{**row, "value": row[column]} for row in rows],
                    title=title,
                    palette=state.palette,
                    around_zero=column == "logit",
                ),
                sentence=sentence(rows, column),
                note=averaged,
                table=table,
                terms=("mean_logit",),
            )
    maps(state, study)


def sentence(rows: list[dict], column: str) -> str:
    """Position 0 beside the others."""
    layers = sorted({row["layer"] for row in rows})
    first = {row["layer"]: row for row in rows if row["key"] == 0}
    if column == "probability":
        above = [layer for layer in layers if first[layer][column] > 2 * first[layer]["uniform"]]
        return (
            f"In {len(above)} of {len(layers)} layers position 0 gets more than twice what uniform attention would "
            f"give it ({first[layers[0]]['uniform']:.3f})."
        )
    others = {layer: [row[column] for row in rows if row["layer"] == layer and row["key"] > 0] for layer in layers}
    above = [layer for layer in layers if others[layer] and first[layer][column] > max(others[layer])]
    return f"In {len(above)} of {len(layers)} layers position 0 has the highest mean logit of all positions."


def maps(state: ViewState, study: Study) -> None:
    """The mean map of one layer, as in the paper."""
    layers = sorted(set(study.table("positions")["layer"].to_pylist()))
    layer = state.layer if state.layer in layers else layers[0]
    table = study.table("maps", layer=layer)
    rows = table.to_pylist()
    asked = study.info["parameters"]
    left, right = st.columns(2, gap="medium")
    for box, column, title in ((left, "logit", "mean logit"), (right, "probability", "mean probability")):
        with box:
            figure(
                f"streaming_map_{column}",
                layer_position_heat(
                    [{**row, "value": row[column]} for row in rows],
                    title=f"{title}, layer {layer}",
                    palette=state.palette,
                    around_zero=column == "logit",
                    y="row",
                ),
                sentence=f"Layer {layer} (chosen on the left), mean over {asked['samples']} sentences and all heads; "
                "cells that a row cannot see are blank.",
                table=table,
                terms=("mean_logit",),
            )

"""The study of the order of segments: what an embedding keeps by place, and where its pooling rows look."""

from __future__ import annotations

import numpy as np
import streamlit as st

from backend.basins.embedding import FRONT
from backend.store import Study
from backend.studies.segment_order import POOLING, Parameters
from pages.shared.charts.slot_profile import slot_profile
from pages.shared.panels.basin_sentences import percent
from pages.shared.panels.basin_studies import START_THERE, column
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

KEY = "headwater_segment_pooling"


def parameters() -> Parameters:
    """Draws the choices of the form on the page of studies."""
    st.text(START_THERE)
    return Parameters()


def pooling() -> str:
    """How the model makes one vector of its tokens."""
    words = {"mean": "mean of all tokens", "first": "first token"}
    return st.segmented_control("Pooling", POOLING, default="mean", format_func=words.get, key=KEY) or "mean"


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """Nothing of the address depends on the study."""
    return state, []


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found."""
    left, right = st.columns(2, gap="medium")
    places = study.table("places").sort_by("place")
    values = np.array(column(places.to_pylist(), "cosine"))
    effect = study.table("effect").to_pylist()[0]
    with left:
        figure(
            "likeness_by_place",
            slot_profile(
                [f"place {at + 1}" for at in range(len(values))], values, np.full(len(values), np.nan), title="cosine"
            ),
            sentence=place_sentence(effect, values),
            table=places,
            terms=("segment_order",),
            note="Cosine between a part embedded alone and the whole text, mean over orders.",
        )
    rows = study.sql("SELECT bin, avg(mass) AS mass, avg(uniform) AS uniform FROM bins GROUP BY bin ORDER BY bin")
    mass, even = (np.array(column(rows.to_pylist(), name)) for name in ("mass", "uniform"))
    with right:
        figure(
            "pooling_profile",
            slot_profile([f"tenth {at + 1}" for at in range(len(mass))], mass, even, title="share of a row"),
            sentence=f"The rows that are pooled give {percent(mass[:FRONT].sum() / mass.sum())} of what they give the "
            f"text to its first two tenths (uniform attention: {percent(even[:FRONT].sum() / even.sum())}), mean over "
            "heads.",
            table=rows,
            terms=("pooling_profile",),
        )


def place_sentence(effect: dict, values: np.ndarray) -> str:
    """Whether place decides."""
    if effect["slope"] is None:
        return "Two places are too few for a line; the bars show both."
    way = "falls" if effect["slope"] < 0 else "rises"
    straight = "" if effect["r2"] is None else f" (R2 = {effect['r2']:.2f})"
    return (
        f"From the first place to the last the likeness of a part to the whole {way} by {abs(effect['slope']):.3f}"
        f"{straight}; position sensitivity {effect['psi']:.3f} (0 = the place does not matter)."
    )

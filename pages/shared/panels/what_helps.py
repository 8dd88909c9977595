"""The study of what would help: methods against the prompt as it is, with a verdict, the cost and the texts."""

from __future__ import annotations

import pyarrow as pa
import streamlit as st

from backend.basins.outcome import BETTER, SAME, UNKNOWN, WORSE
from backend.store import Study
from backend.studies.what_helps import METHODS, Parameters
from pages.shared.charts.method_differences import method_differences
from pages.shared.panels.basin_studies import START_THERE
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

TEXTS = 3  # orders whose texts are shown


def parameters() -> Parameters:
    """Draws the choices of the form on the page of studies."""
    st.text(START_THERE)
    return Parameters()


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """Nothing of the address depends on the study."""
    return state, []


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found."""
    rows = study.table("methods").to_pylist()
    methods = [row for row in rows if row["method"] != "as it is"]
    shown = pa.table(
        {
            "method": [f"{row['method']}: {METHODS.get(row['method'], '')}" for row in rows],
            "ln p of the answer": [two(row["after"]) for row in rows],
            "difference (95 %)": [interval(row) for row in rows],
            "verdict": [row["verdict"] for row in rows],
            "text holds the answer": [share(row["says_after"]) for row in rows],
            "readings": [two(row["cost"]) for row in rows],
        }
    )
    if any(row["difference"] is not None for row in methods):
        figure(
            "what_would_help",
            method_differences(methods),
            sentence=sentence(methods),
            terms=("answer_logprob", "verdict"),
            note=f"Over {rows[0]['orders']} starting orders of this one prompt; another prompt may answer otherwise.",
        )
    else:
        st.text("No reference answer was given, so nothing is judged: the texts below are all there is.")
    st.dataframe(shown, hide_index=True)
    texts(study)


def sentence(methods: list[dict]) -> str:
    """What helped and what did not, in that order."""
    parts = []
    for word, verb in ((BETTER, "helped"), (WORSE, "hurt"), (SAME, "made no difference beyond chance")):
        names = [
            f"{row['method']} ({row['difference']:+.2f} nats, {row['cost']:.1f} readings)"
            for row in methods
            if row["verdict"] == word
        ]
        if names:
            parts.append(f"{', '.join(names)} {verb}")
    unknown = [row["method"] for row in methods if row["verdict"] == UNKNOWN]
    if unknown:
        parts.append(f"{', '.join(unknown)}: not judged, more orders are needed")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def texts(study: Study) -> None:
    """What the model wrote, plain text."""
    rows = study.table("outcomes").to_pylist()
    for order in sorted({row["order"] for row in rows})[:TEXTS]:
        with st.container(border=True, gap="small"):
            st.text(f"Starting order {order + 1}")
            for row in (row for row in rows if row["order"] == order):
                value = "" if row["logprob"] is None else f", ln p {row['logprob']:.2f}"
                st.text(f"{row['method']} ({row['detail']}{value}): {' '.join(row['text'].split())}")


def two(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def interval(row: dict) -> str:
    """The mean difference with its interval."""
    if row["difference"] is None or row["method"] == "as it is":
        return ""
    around = "" if row["low"] is None else f" ({row['low']:+.2f} to {row['high']:+.2f})"
    return f"{row['difference']:+.2f}{around}"

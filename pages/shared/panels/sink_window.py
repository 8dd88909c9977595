"""Window alone against sink and window: what each keeps of the attention, and what reading with it costs."""

from __future__ import annotations

import re

import streamlit as st

from backend.errors import Refused
from backend.store import Study
from backend.studies.sink_window import BOTH, FULL, WINDOW, Parameters
from pages.shared.charts.budget_lines import budget_lines
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

KEY = "headwater_window_"


def parameters(token_ids: tuple[int, ...] = (), words: str = "") -> Parameters | None:
    """Draws the choices. token_ids: the prompt; none = the texts that come with Headwater."""
    with st.container(horizontal=True, gap="small"):
        length = st.number_input("Tokens at most", 2, 100_000, 512, key=KEY + "length")
        first = st.number_input("First keys", 1, 1000, 4, key=KEY + "first")
        budgets = st.text_input("Kept keys, several numbers", "32 64 128", key=KEY + "budgets") or ""
    numbers = tuple(int(text) for text in re.findall(r"\d{1,6}", budgets))
    try:
        return Parameters(token_ids, words, int(length), int(first), numbers)
    except Refused as error:
        st.text(str(error))
        return None


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """Nothing of the address depends on the study."""
    return state, []


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found."""
    table = study.table("variants")
    rows = table.to_pylist()
    first = study.info["parameters"]["first"]
    by = {(row["variant"], row["budget"]): row for row in rows}
    budgets = sorted({row["budget"] for row in rows if row["budget"]})
    kept, cost = st.columns(2, gap="medium")
    smallest = budgets[0]
    with kept:
        lines = [{**row, "value": row["retained"]} for row in rows if row["budget"]]
        figure(
            "window_retained",
            budget_lines(lines, title="retained share of attention", percent=True),
            sentence=f"With {smallest} keys the window holds {share(by[WINDOW, smallest]['retained'])} of the "
            f"attention of the rows that lose a key; {first} first keys and the last {smallest - first} hold "
            f"{share(by[BOTH, smallest]['retained'])}.",
            table=table,
            terms=("streaming_mass",),
        )
    with cost:
        lines = [{**row, "value": row["perplexity"]} for row in rows if row["budget"]]
        lines += [{**by[FULL, 0], "budget": budget, "value": by[FULL, 0]["perplexity"]} for budget in budgets]
        figure(
            "window_perplexity",
            budget_lines(lines, title="perplexity", log=True),
            sentence=f"Reading {by[FULL, 0]['tokens']} tokens with {smallest} keys: perplexity "
            f"{number(by[WINDOW, smallest])} with the window, {number(by[BOTH, smallest])} with first keys and window, "
            f"{number(by[FULL, 0])} with all keys.",
            note="From real runs with a cache that drops the others; keys keep the positions at which they were read.",
            table=table,
            terms=("stream_perplexity",),
        )


def share(value: float | None) -> str:
    """A share, or that it is not defined."""
    return "an undefined share" if value is None else f"{value:.0%}"


def number(row: dict) -> str:
    """A perplexity to three digits."""
    return "beyond numbers" if row["perplexity"] is None else f"{row['perplexity']:.3g}"

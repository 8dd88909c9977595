"""The calibration study: rankings of the parts side by side, and how good each is where the right part is marked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.basins.relevance import ndcg_at, recall_at, reciprocal_rank
from backend.store import Study
from backend.studies.calibration import METHODS, Parameters
from pages.shared.charts.effect_bars import effect_bars
from pages.shared.panels.basin_studies import START_THERE, column, gold_of, part_names
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

SHOWN = {"raw": "as it is", "calibrated": "calibrated by dummies", "null_query": "calibrated by a null query"}
MORE = {"cheap": "cheap (dummies everywhere)", "top": "ten strongest tokens", "total": "whole part"}
LISTED = 12


def parameters() -> Parameters:
    """Draws the choices of the form on the page of studies."""
    st.text(START_THERE)
    return Parameters()


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """Nothing of the address depends on the study."""
    return state, []


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found."""
    looking = "question" if state.more("look", "last") == "question" else "last"
    names = part_names(study.info["parameters"])
    gold = gold_of(state, len(names))
    orders = {
        name: study.table("rankings", looking=looking, method=name).sort_by("place")["part"].to_pylist()
        for name in METHODS
    }
    rankings(orders, names, gold, looking)
    scores = study.table("scores", looking=looking).sort_by("part")
    left, right = st.columns([0.55, 0.45], gap="medium")
    with left:
        values = np.array(column(scores.to_pylist(), "calibrated"))
        figure(
            "calibrated_attention",
            effect_bars(names, values, title="share per token beyond a dummy's"),
            sentence=f"Beyond what a dummy gets at the same place, {names[int(np.nanargmax(values))]} gets most and "
            f"{names[int(np.nanargmin(values))]} least.",
            table=scores,
            terms=("calibrated_attention", "null_query"),
        )
    with right:
        metrics(orders, gold)


def rankings(orders: dict[str, list[int]], names: list[str], gold: int | None, looking: str) -> None:
    """Three columns, best first."""
    rows = "the question" if looking == "question" else "the last token"
    for (name, words), place in zip(SHOWN.items(), st.columns(len(SHOWN)), strict=True):
        with place, st.container(border=True, gap="small"):
            st.text(f"Ranking {words}")
            for at, part in enumerate(orders[name][:LISTED], 1):
                st.text(f"{at}. {'★ ' if part == gold else ''}{names[part]}")
    st.text(ranking_sentence(orders, names, gold, rows))


def ranking_sentence(orders: dict[str, list[int]], names: list[str], gold: int | None, rows: str) -> str:
    """Where the marked part lands."""
    if gold is None:
        same = len({tuple(orders[name]) for name in SHOWN}) == 1
        heads = ", ".join(f"{words}: {names[orders[name][0]]}" for name, words in SHOWN.items())
        return f"Seen from {rows}, first is {heads}." if not same else f"Seen from {rows}, all three rank alike."
    places = ", ".join(f"{words} {orders[name].index(gold) + 1}" for name, words in SHOWN.items())
    return f"Seen from {rows}, {names[gold]} (marked) is at place: {places}, of {len(names)}."


def metrics(orders: dict[str, list[int]], gold: int | None) -> None:
    """Recall, NDCG and reciprocal rank, where a part is marked."""
    if gold is None:
        st.text("Mark the part that holds the answer (Where does it look?) to see how good each ranking is.")
        return
    words = {**SHOWN, **MORE}
    table = pa.table(
        {
            "ranking": [words[name] for name in words],
            **{f"recall@{k}": [recall_at(orders[name], {gold}, k) for name in words] for k in (1, 3)},
            "NDCG@10": [ndcg_at(orders[name], {gold}) for name in words],
            "1 / rank": [reciprocal_rank(orders[name], {gold}) for name in words],
        }
    )
    st.dataframe(table, hide_index=True)
    figure("quality_of_the_rankings", None, table=table, terms=("ranking_quality",))
    st.text("One prompt with one right part: these numbers describe this prompt, not the method.")

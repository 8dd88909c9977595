"""Which heads must stay dense? Damage of every key head alone, and of all others with the worst ones left alone."""

from __future__ import annotations

import numpy as np
import streamlit as st

from backend import policies
from backend.errors import HeadwaterError
from backend.map_sizes import SIDES
from backend.store import Analysis, Study
from backend.studies.dense_heads import STUDY, Parameters
from pages.shared.charts.layer_head_heat import layer_head_heat
from pages.shared.charts.named_lines import named_lines
from pages.shared.panels.figure import figure
from pages.shared.panels.page_study import page_study
from pages.shared.panels.readable import readable
from pages.shared.panels.sparsity_sentences import percent
from pages.shared.view_state import ViewState

KEY = "headwater_sparsity_dense_"
BUDGETS = [0.05, 0.1, 0.25, 0.5]
ORDERS = {"damage": "by damage (greedy)", "prediction": "by -ln retained (no run)", "lot": "by lot"}


def sparsity_dense(state: ViewState, analysis: Analysis) -> None:
    """Draws the part."""
    place = st.container()
    study = page_study(state, STUDY, parameters(analysis, state.kind), analysis.info)
    with place, readable():
        if study is None:
            st.text(
                "Some heads lose so much when their keys are dropped that they are better left dense. This runs "
                "the model "
                "with every key head shortened alone, then with all of them but the worst."
            )
        else:
            found(state, study)


def parameters(analysis: Analysis, kind: str) -> Parameters | None:
    """Draws the choices of a run."""
    if kind != "self":
        st.text("Runs with less are made with decoder models that have one stack of layers.")
        return None
    shelf = policies.all()
    with st.container(horizontal=True, gap="small"):
        policy = st.selectbox(
            "Policy", list(shelf), list(shelf).index("streaming_llm"), format_func=lambda one: shelf[one].title,
            key=KEY + "policy",
        )  # fmt: skip
        budget = st.selectbox("Keys kept", BUDGETS, 2, format_func=percent, key=KEY + "budget")
    tokens = [token for token in analysis.tokens_list() if token.side == SIDES[kind][1]]
    try:
        return Parameters(
            tuple(token.token_id for token in tokens), "".join(token.text for token in tokens[:40]), policy, budget
        )
    except HeadwaterError as error:
        st.text(str(error))
        return None


def found(state: ViewState, study: Study) -> None:
    """What the study found."""
    heads, curve = study.table("heads").to_pylist(), study.table("curve").to_pylist()
    layers = sorted({row["layer"] for row in heads})
    grid = np.full((len(layers), 1 + max(row["key_head"] for row in heads)), np.nan)
    for row in heads:
        grid[layers.index(row["layer"]), row["key_head"]] = row["kl"]
    ranked = sorted(heads, key=lambda row: row["rank"])
    total = sum(row["kl"] for row in heads)
    worst = ", ".join(f"{row['layer']}.{row['key_head']}" for row in ranked[:5])
    tenth = ranked[: max(1, len(ranked) // 10)]
    share = sum(row["kl"] for row in tenth) / total if total > 0 else None
    left, right = st.columns([0.45, 0.55], gap="medium")
    with left:
        figure(
            "sparsity_dense_heads",
            layer_head_heat(layers, grid, title="damage alone", palette=state.palette),
            sentence=f"Key heads that lose most when they alone drop keys: {worst}. The worst tenth makes "
            f"{percent(share)} of the damage added up.",
            table=study.table("heads"),
            terms=("damage", "dense_heads"),
        )
    points = [
        {"name": ORDERS[row["order"]], "x": row["dense"], "y": max(row["kl"], 1e-6)}
        for row in sorted(curve, key=lambda row: row["dense"])
        if row["dense"] < 1
    ]
    by_damage = sorted((row for row in curve if row["order"] == "damage"), key=lambda row: row["dense"])
    none = by_damage[0]["kl"]
    half = next((row for row in by_damage if row["kl"] <= none / 2), by_damage[-1])
    given = study.info["parameters"]
    with right:
        figure(
            "sparsity_dense_curve",
            named_lines(points, x="key heads that stay dense", x_format="%", y="damage (nats, log)", log=True),
            sentence=f"{policies.all()[given['policy']].title} with {percent(given['budget'])} kept does "
            f"{none:.3g} nats of "
            f"damage; with {percent(half['dense'])} of the key heads dense, {percent(half['kept'])} of the keys "
            f"are kept "
            f"and {half['kl']:.3g} nats are left.",
            note="Greedy: heads in the order of their damage alone, measured once; heads that need each other are not "
            "seen.",
            table=study.table("curve"),
            terms=("damage", "dense_heads", "predicted_damage"),
        )

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
ORDERS = {
    "greedy": "greedy, the first ones together",
    "damage": "by damage alone",
    "prediction": "by -ln retained (no run)",
    "lot": "by lot",
}


def sparsity_dense(state: ViewState, analysis: Analysis) -> None:
    """Draws the part."""
    place = st.container()
    study = page_study(state, STUDY, parameters(analysis, state.kind), analysis.info)
    with place, readable():
        if study is None:
            st.text(
                "Some heads lose so much when their keys are dropped that they are better left dense. This runs the "
                "model with every key head shortened alone, then with all of them but the worst."
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
    heads = study.table("heads").to_pylist()
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
    with right:
        dense_curve(study)
    if "steps" in study.tables():  # studies of an earlier version chose every head alone
        steps(study)


def dense_curve(study: Study) -> None:
    """What is left of the damage with more and more heads dense."""
    curve, given = study.table("curve").to_pylist(), study.info["parameters"]
    points = [
        {"name": ORDERS[row["order"]], "x": row["dense"], "y": max(row["kl"], 1e-6)}
        for row in sorted(curve, key=lambda row: row["dense"])
        if row["dense"] < 1
    ]
    first = next(order for order in ORDERS if any(row["order"] == order for row in curve))
    greedy = sorted((row for row in curve if row["order"] == first), key=lambda row: row["dense"])
    none = greedy[0]["kl"]
    half = next((row for row in greedy if row["kl"] <= none / 2), greedy[-1])
    figure(
        "sparsity_dense_curve",
        named_lines(points, x="key heads that stay dense", x_format="%", y="damage (nats, log)", log=True),
        sentence=f"{policies.all()[given['policy']].title} with {percent(given['budget'])} kept does {none:.3g} nats "
        f"of damage; with {percent(half['dense'])} of the key heads dense, {percent(half['kept'])} of the keys are "
        f"kept and {half['kl']:.3g} nats are left.",
        table=study.table("curve"),
        terms=("damage", "dense_heads", "predicted_damage"),
    )


def steps(study: Study) -> None:
    """The heads that were chosen together."""
    rows = study.table("steps").to_pylist()
    named = ", ".join(f"{row['layer']}.{row['key_head']} ({row['kl']:.3g} nats left)" for row in rows)
    others = "; the other heads follow by their damage alone, where it is not seen that heads need each other"
    alone = sum(row["rank"] == row["step"] for row in rows)
    figure(
        "sparsity_dense_steps",
        None,
        sentence=f"Chosen together, each with those before it dense: {named}. The order by damage alone has {alone} "
        f"of these {len(rows)} at the same place.",
        note=f"Greedy: every step tried the {rows[0]['candidates']} key heads with most damage alone that were not "
        f"dense yet, and kept the one that left least damage. That was done for the first {len(rows)}"
        + (others if len(rows) < study.table("heads").num_rows else "")
        + ".",
        table=study.table("steps"),
        terms=("damage", "dense_heads"),
    )

"""What would a policy keep? All policies at one budget; the chosen one head by head, in the text and on the map."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend import policies
from backend.map_sizes import SIDES
from backend.policies.top_theta import per_row
from backend.sparsity.rows import read_head, read_note
from backend.sparsity.simulate import Outcome
from backend.sparsity.stored_layers import not_counted, stored_layers
from backend.store import Analysis
from backend.types import Segment
from kernels.measures import pool_edges
from pages.shared.address import select
from pages.shared.charts.kept_map import SIDE, kept_map
from pages.shared.charts.layer_head_heat import PICKED as HEAT_PICKED
from pages.shared.charts.layer_head_heat import layer_head_heat
from pages.shared.charts.policy_bars import PICKED, policy_bars
from pages.shared.kept_text import kept_text
from pages.shared.panels.figure import figure
from pages.shared.panels.readable import readable
from pages.shared.panels.sparsity_policy_data import Kept, PolicyChoice, kept, policy_choice, retained_grid
from pages.shared.panels.sparsity_sentences import percent
from pages.shared.view_state import ViewState

BARS, HEAT = "sparsity_policies", "sparsity_policy_heads"
OVER = {"head": "This head's keys", "all": "All key heads"}
OVER_KEY, NEEDLE_KEY = "headwater_sparsity_over", "headwater_sparsity_needle"


def sparsity_policies(state: ViewState, analysis: Analysis) -> None:
    """Draws the part."""
    choice = policy_choice(state)
    found = kept(analysis, state.kind, choice.keep)
    left, right = st.columns([0.55, 0.45], gap="medium")
    with left, readable():
        bars(found, choice, needle(state, analysis), not_counted(analysis, state.kind))
    outcome = found.outcomes.get(choice.policy)
    if outcome is None:
        st.text(found.refused.get(choice.policy, "This policy was not computed."))
        return
    with right, readable():
        heads(state, outcome, choice)
    with readable():
        if choice.policy == "top_theta":
            st.text(rule_per_row(state, analysis, choice.keep))
        text(state, analysis, found, outcome)
    if state.head in analysis.exact_heads(state.layer, state.kind):
        with readable():
            on_the_map(state, analysis, found, outcome)


def rule_per_row(state: ViewState, analysis: Analysis, keep: int) -> str:
    """Top-theta as it was made: every row keeps the keys that reach the threshold of its head."""
    numbers = [layer.layer for layer in analysis.layers(state.kind)]
    layer = stored_layers(analysis, state.kind)[numbers.index(state.layer)]()
    found = per_row(layer, keep / 100)
    kept_share, mass = found.kept[state.head], found.mass[state.head]
    return (
        f"As a rule per row, a threshold made for {keep} % of the keys lets later rows of head "
        f"{state.layer}.{state.head} "
        f"keep {percent(float(kept_share.mean()))} of them ({percent(float(kept_share.min()))} to "
        f"{percent(float(kept_share.max()))}) and {percent(float(mass.mean()))} of their attention. Below, keys are "
        "evicted for good, by how many rows they reach it in."
    )


def needle(state: ViewState, analysis: Analysis) -> Segment | None:
    """The part of the prompt whose survival is asked; a choice where the prompt has parts."""
    parts = [segment for segment in analysis.segments() if segment.end > segment.start]
    if len(parts) < 2:
        return None
    wanted = state.more("needle")
    at = int(wanted) if wanted.isdecimal() and int(wanted) < len(parts) else 0
    st.session_state[NEEDLE_KEY] = at
    st.selectbox(
        "Needle: the part that must survive",
        range(len(parts)),
        format_func=lambda one: f"{parts[one].name} (tokens {parts[one].start} to {parts[one].end - 1})",
        key=NEEDLE_KEY,
        on_change=lambda: select(needle=str(st.session_state[NEEDLE_KEY])),
    )
    return parts[at]


def bars(found: Kept, choice: PolicyChoice, part: Segment | None, others: str | None) -> None:
    """The ranking of policies; a click chooses one. others: what is said of layers without keys."""
    shelf = policies.all()
    rows = []
    for name, one in found.outcomes.items():
        row = {"policy": name, "title": shelf[name].title, "kept": one.kept_share, "retained": one.retained,
               "best_possible": one.best_possible, "overlap": none_for_nan(one.overlap),
               "minus_ln_retained": one.divergence}  # fmt: skip
        if part is not None:
            row["needle_survival"] = none_for_nan(one.survival(part.start, min(part.end, found.n)))
        rows.append(row)
    rows.sort(key=lambda row: -row["retained"])
    chosen = found.outcomes.get(choice.policy, next(iter(found.outcomes.values())))
    figure(
        BARS,
        policy_bars(rows, selected=choice.policy, uniform=chosen.uniform),
        sentence=sentence(rows, choice, found.n, shelf),
        note=notes(found, choice, part, others),
        table=pa.Table.from_pylist(rows),
        terms=("retained_mass", "best_possible", "overlap", "needle_survival", "policy_budget"),
        on_pick=_take_policy,
        pick=PICKED,
    )


def sentence(rows: list[dict], choice: PolicyChoice, n: int, shelf: dict) -> str:
    """Who keeps most, and what the chosen one keeps."""
    honest = [row for row in rows if not shelf[row["policy"]].looks_ahead]
    text = f"The first {n:,} tokens are in the cache; later rows judge. With {choice.keep} % of the keys, "
    text += f"{honest[0]['title']} retains most of those that can be built, {percent(honest[0]['retained'])} of their "
    text += "attention"
    own = next((row for row in rows if row["policy"] == choice.policy), None)
    if own is not None and own is not honest[0]:
        text += f", {own['title']} {percent(own['retained'])}"
    return text + "."


def notes(found: Kept, choice: PolicyChoice, part: Segment | None, others: str | None) -> str:
    """What was counted and what was not."""
    said = [
        "What is retained is not what the model would answer: the part Real cost runs it. It also measures the error "
        "of each head's output, for which values are needed: an analysis keeps their lengths only."
    ]
    outcome = found.outcomes.get(choice.policy)
    if outcome is not None and outcome.note:
        said.append(outcome.note)
    said += [others] if others else []
    if part is not None and part.end > found.n:
        said.append(f"Of {part.name} only the tokens in the cache count.")
    said += [reason for name, reason in found.refused.items() if name != choice.policy]
    return " ".join(said)


def none_for_nan(value: float) -> float | None:
    return None if value != value else value


def _take_policy() -> None:
    points = st.session_state[f"{BARS}_chart"].selection.get(PICKED, [])
    name = points[0].get("policy") if points else None
    if name in policies.all():
        select(policy=name)


def heads(state: ViewState, outcome: Outcome, choice: PolicyChoice) -> None:
    """What the chosen policy retains in every head."""
    layers, grid = retained_grid(outcome)
    title = f"{policies.all()[choice.policy].title}: retained"
    worst = np.unravel_index(np.nanargmin(grid), grid.shape)
    rows = [
        {"layer": layer, "head": head, "retained": float(grid[at, head])}
        for at, layer in enumerate(layers)
        for head in range(grid.shape[1])
        if np.isfinite(grid[at, head])
    ]
    figure(
        HEAT,
        layer_head_heat(layers, grid, title=title, selected=(state.layer, state.head), palette=state.palette),
        sentence=f"Head {layers[worst[0]]}.{worst[1]} loses most: it keeps {percent(float(np.nanmin(grid)))}.",
        table=pa.Table.from_pylist(rows),
        terms=("retained_mass",),
        on_pick=_take_head,
        pick=HEAT_PICKED,
    )


def _take_head() -> None:
    points = st.session_state[f"{HEAT}_chart"].selection.get(HEAT_PICKED, [])
    if points and all(isinstance(points[0].get(name), int) for name in ("layer", "head")):
        select(layer=points[0]["layer"], head=points[0]["head"])


def text(state: ViewState, analysis: Analysis, found: Kept, outcome: Outcome) -> None:
    """The prompt with kept tokens solid and dropped ones faded."""
    over = "all" if state.more("over") == "all" else "head"
    st.session_state[OVER_KEY] = over
    st.segmented_control(
        "Kept in", list(OVER), format_func=OVER.get, key=OVER_KEY, label_visibility="collapsed",
        on_change=lambda: select(over="all" if st.session_state[OVER_KEY] == "all" else None),
    )  # fmt: skip
    if over == "all":
        shares = np.concatenate([one.kept.numpy() for one in outcome.layers]).mean(0)
        said = (
            f"A token counts as solid as many of the {sum(len(one.kept) for one in outcome.layers)} key heads keep it."
        )
    else:
        judged = next(one for one in outcome.layers if one.layer == state.layer)
        group = len(judged.retained) // len(judged.kept)
        shares = judged.kept[state.head // group].double().numpy()
        said = (
            f"Head {state.layer}.{state.head} reads key head {state.head // group}, which keeps {int(shares.sum()):,} "
        )
        said += f"of {found.n:,} keys."
        if group > 1:
            first = state.head // group * group
            said += f" Heads {state.layer}.{first} to {state.layer}.{first + group - 1} share it: one choice for all."
    side = SIDES[state.kind][1]
    labels = [token.label for token in analysis.tokens_list() if token.side == side]
    left_out = kept_text(labels, shares, key="headwater_kept_text")
    if left_out:
        said += f" The first {left_out:,} tokens are not shown."
    st.text(f"{said} Dotted: tokens behind the context, which judge.")


def on_the_map(state: ViewState, analysis: Analysis, found: Kept, outcome: Outcome) -> None:
    """The map of the chosen head: what later rows cannot see any more lies under a veil."""
    rows, _ = read_head(analysis, state.kind, state.layer, state.head)
    judged = next(one for one in outcome.layers if one.layer == state.layer)
    kept_keys = judged.kept[state.head // (len(judged.retained) // len(judged.kept))].numpy()
    mask = rows.visible.copy()
    mask[rows.position >= found.n, : found.n] &= kept_keys[None]
    row_edges, key_edges = (pool_edges(length, SIDE).numpy() for length in mask.shape)
    cells, inside, mass = (
        np.add.reduceat(np.add.reduceat(values, row_edges[:-1], 0), key_edges[:-1], 1)
        for values in (rows.visible.astype(float), mask.astype(float), rows.weights)
    )
    with np.errstate(invalid="ignore"):
        chart = kept_map(
            mass / np.where(cells > 0, cells, np.nan),
            inside / np.maximum(cells, 1),
            row_edges + rows.position[0],
            key_edges,
            palette=state.palette,
        )
    figure(
        "sparsity_policy_map",
        chart,
        sentence=f"The map of head {state.layer}.{state.head}: from row {found.n:,} on, dropped keys are veiled.",
        note=read_note(analysis, state.kind, state.layer) or None,
        terms=("retained_mass",),
    )

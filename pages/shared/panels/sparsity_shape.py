"""How concentrated is every head, and which pattern has it?"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.map_sizes import map_sizes
from backend.sparsity.concentration import coverage_curve
from backend.sparsity.head_table import as_table
from backend.sparsity.patterns import WORDS, Decision, fit_all, paths
from backend.sparsity.rows import Rows, read_head, read_note
from backend.store import Analysis
from kernels.measures import pool_edges
from pages.shared.address import select
from pages.shared.charts.coverage_curves import coverage_curves
from pages.shared.charts.kept_map import SIDE, kept_map
from pages.shared.charts.keys_by_position import keys_by_position
from pages.shared.charts.layer_head_heat import layer_head_heat
from pages.shared.charts.pattern_grid import PICKED, pattern_grid
from pages.shared.charts.retained_by_budget import retained_by_budget
from pages.shared.panels.figure import figure
from pages.shared.panels.readable import readable
from pages.shared.panels.sparsity_blocks import pattern_files, sparsity_blocks
from pages.shared.panels.sparsity_data import budget_of, coverage_along, coverage_of_heads, head_rows
from pages.shared.panels.sparsity_log_weights import sparsity_log_weights
from pages.shared.panels.sparsity_sentences import (
    coverage_sentence,
    head_sentence,
    patterns_sentence,
    size_words,
)
from pages.shared.view_state import ViewState

GRID = "sparsity_patterns"
MOST_LINES = 600  # heads drawn as thin lines
PLAIN_BY, BY_KEY = "pattern", "headwater_sparsity_by"
BY = {
    "pattern": "Pattern",
    "share_95": "Share of the visible keys for 95 %",
    "keys_95": "Keys for 95 %",
    "normalised_entropy": "Normalised entropy",
    "gini": "Gini",
    "hoyer": "Hoyer",
    "participation": "Participation (keys)",
    "under_0_01_uniform": "Cells under a hundredth of uniform",
    "score_sigma": "Spread of the scores (nats)",
}
TERM_OF = {"share_95": "coverage", "keys_95": "coverage", "under_0_01_uniform": "threshold_share"}
SAMPLED = "Coverage is exact on 64 sampled rows of each head (all rows of shorter prompts), not measured on the others."
THIN = "Thin lines begin where half of the attention is held."


def sparsity_shape(state: ViewState, analysis: Analysis) -> None:
    """Draws the part."""
    budget = budget_of(state)
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left, readable():
        curves(state, analysis)
    with right, readable():
        grid(state, analysis, budget)
    if state.head not in analysis.exact_heads(state.layer, state.kind):
        st.text("The exact map of this head was not kept, so its pattern cannot be drawn.")
        return
    measured, sampled = read_head(analysis, state.kind, state.layer, state.head)
    decision, on = fit_all(measured, budget / 100), read_note(analysis, state.kind, state.layer)
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left, readable():
        own_map(state, measured, decision, budget, on)
    with right, readable():
        trade(state, measured, decision, budget, on)
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left, readable():
        along(state, analysis)
    with right, readable():
        sparsity_log_weights(state, sampled)
    with readable():
        sparsity_blocks(state, analysis, measured)


def curves(state: ViewState, analysis: Analysis) -> None:
    """How few keys hold how much, all heads."""
    rows = coverage_of_heads(analysis, analysis.id, state.kind)
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        lines.setdefault(f"{row['layer']}.{row['head']}", []).append((row["share"], row["percent"] / 100))
    step = max(1, math.ceil(len(lines) / MOST_LINES))
    thin = dict(list(lines.items())[::step])
    chosen = f"{state.layer}.{state.head}"
    own = lines.get(chosen, [])
    keys = map_sizes(analysis)[state.kind][state.layer].keys
    smallest = min(0.5, 1 / max(2, keys))
    if state.head in analysis.exact_heads(state.layer, state.kind):
        _, sampled = read_head(analysis, state.kind, state.layer, state.head)
        shares = smallest * (1 / smallest) ** (np.arange(41) / 40)
        held = coverage_curve(sampled, shares)
        own = [(x, y) for x, y in zip(shares.tolist(), held.tolist(), strict=True) if math.isfinite(y)]
    note = f"{SAMPLED} {THIN}" if step == 1 else f"{SAMPLED} {THIN} Every {step}th head is drawn."
    figure(
        "sparsity_coverage",
        coverage_curves(thin, chosen, own, smallest=smallest),
        sentence=coverage_sentence(rows, state.layer, state.head),
        note=note,
        table=pa.Table.from_pylist(rows) if rows else None,
        terms=("coverage", "effective_keys", "entropy", "negligible_share"),
    )


def grid(state: ViewState, analysis: Analysis, budget: int) -> None:
    """The pattern of every head; a click chooses one."""
    rows = head_rows(analysis, state.kind, budget)
    if not rows:
        st.text(patterns_sentence(rows))
        return
    by = colour_by(state)
    if by != PLAIN_BY:
        measure_heat(state, rows, by)
        pattern_files(analysis, state.kind, rows)
        return
    shown = [
        {**row, "retained": max((row[f"{n}_retained"] or 0 for n in WORDS if f"{n}_retained" in row), default=None)}
        for row in rows
    ]
    figure(
        GRID,
        pattern_grid(
            shown, WORDS, selected=(state.layer, state.head), retained=f"best pattern keeps, at {budget} % of the pairs"
        ),
        sentence=patterns_sentence(rows),
        note=read_note(analysis, state.kind, state.layer) or None,
        table=as_table(rows),
        terms=(
            "pattern",
            "retained_mass",
            "gini",
            "hoyer",
            "participation",
            "normalised_entropy",
            "threshold_share",
            "score_sigma",
            "entropy_misfit",
        ),
        on_pick=_take_head,
        pick=PICKED,
    )
    pattern_files(analysis, state.kind, rows)  # fmt: skip


def colour_by(state: ViewState) -> str:
    """What the grid of heads shows: the pattern, or one number; a choice."""
    by = state.more("by", PLAIN_BY)
    by = by if by in BY else PLAIN_BY
    st.session_state[BY_KEY] = by
    st.selectbox(
        "All heads by", list(BY), format_func=BY.get, key=BY_KEY, label_visibility="collapsed",
        on_change=lambda: select(by=None if st.session_state[BY_KEY] == PLAIN_BY else st.session_state[BY_KEY]),
    )  # fmt: skip
    return by


def measure_heat(state: ViewState, rows: list[dict], by: str) -> None:
    """One number of every head."""
    layers = sorted({row["layer"] for row in rows})
    grid = np.full((len(layers), 1 + max(row["head"] for row in rows)), np.nan)
    for row in rows:
        grid[layers.index(row["layer"]), row["head"]] = np.nan if row[by] is None else row[by]
    known = [row for row in rows if row[by] is not None]
    most = max(known, key=lambda row: row[by], default=None)
    means = [float(np.nanmean(line)) for line in grid if np.isfinite(line).any()]
    said = "No head has a value here." if most is None else (
        f"{BY[by]}: largest in head {most['layer']}.{most['head']} ({most[by]:.3g}); layers lie between "
        f"{min(means):.3g} and {max(means):.3g} on average over their heads."
    )  # fmt: skip
    figure(
        GRID,
        layer_head_heat(layers, grid, title=BY[by], selected=(state.layer, state.head), palette=state.palette),
        sentence=said,
        note=SAMPLED,
        table=as_table(rows),
        terms=(TERM_OF.get(by, by),),
        on_pick=_take_head,
        pick=PICKED,
    )


def _take_head() -> None:
    points = st.session_state[f"{GRID}_chart"].selection.get(PICKED, [])
    if points and all(isinstance(points[0].get(name), int) for name in ("layer", "head")):
        select(layer=points[0]["layer"], head=points[0]["head"])


def own_map(state: ViewState, rows: Rows, decision: Decision, budget: int, on: str) -> None:
    """The map of the chosen head with what its pattern drops under a veil."""
    name = decision.name if decision.name in decision.fits else best_of(decision)
    path = paths(rows)[name]
    step = path.step_within(int(budget / 100 * int(rows.visible.sum()) + 1e-9))
    if step is None:
        st.text(f"No {WORDS[name]} pattern is as small as {budget} % of the pairs of this prompt.")
        return
    mask = path.mask(step)
    row_edges, key_edges = (pool_edges(length, SIDE).numpy() for length in rows.weights.shape)
    cells, kept, mass = (
        np.add.reduceat(np.add.reduceat(values, row_edges[:-1], 0), key_edges[:-1], 1)
        for values in (rows.visible.astype(float), mask.astype(float), rows.weights)
    )
    with np.errstate(invalid="ignore"):
        chart = kept_map(
            mass / np.where(cells > 0, cells, np.nan),
            kept / np.maximum(cells, 1),
            row_edges + rows.position[0],
            key_edges,
            palette=state.palette,
        )
    what = f"The map of head {state.layer}.{state.head} with {WORDS[name]} over it: {size_words(path.size(step))}."
    figure(
        "sparsity_map",
        chart,
        sentence=f"{what} What lies under the veil is skipped.",
        note=on or None,
        terms=("pattern",),
    )


def best_of(decision: Decision) -> str:
    """The family that keeps most, of a head that none of them fits."""
    return max(decision.fits, key=lambda name: decision.fits[name].retained or 0.0)


def trade(state: ViewState, rows: Rows, decision: Decision, budget: int, on: str) -> None:
    """What each family keeps at every budget."""
    visible = int(rows.visible.sum())
    marks = np.unique(np.concatenate([np.geomspace(1 / max(visible, 2), 1, 24), np.linspace(0.02, 1, 25)]))
    lines = {}
    for name, path in paths(rows).items():
        steps = [(mark, path.step_within(int(mark * visible + 1e-9))) for mark in marks]
        lines[WORDS[name]] = [(float(mark), float(path.mass[step])) for mark, step in steps if step is not None]
    held = np.concatenate([[0.0], np.cumsum(-np.sort(-rows.weights[rows.visible]))]) / len(rows.position)
    best = [(float(mark), float(held[int(mark * visible + 1e-9)])) for mark in marks]
    table = pa.Table.from_pylist(
        [
            {"pattern": WORDS[name], "kept_at_budget": fit.retained, "size": size_words(fit.size),
             "pairs_for_95": fit.price, "size_for_95": size_words(fit.price_size)}
            for name, fit in decision.fits.items()
        ]
    )  # fmt: skip
    figure(
        "sparsity_trade",
        retained_by_budget(lines, best, budget=budget / 100),
        sentence=head_sentence(decision, state.layer, state.head, budget),
        note=on
        + "Columns, diagonals and blocks are the ones that really hold most: a choice made at run time keeps less.",
        table=table,
        terms=("pattern", "retained_mass"),
    )


def along(state: ViewState, analysis: Analysis) -> None:
    """Keys needed along the text: against length and against uniform attention."""
    rows = coverage_along(analysis, state.kind, state.layer, state.head)
    if not rows:
        st.text("This analysis has no coverage for this head.")
        return
    uniform = [
        {"query": r["query"], "keys": math.ceil(0.95 * r["visible_keys"] - 1e-6)} for r in rows if r["percent"] == 95
    ]
    last = {row["percent"]: row for row in rows if row["query"] == rows[-1]["query"]}
    seen = last[95]["visible_keys"]
    figure(
        "sparsity_along",
        keys_by_position(rows, uniform=uniform),
        sentence=f"The last row of head {state.layer}.{state.head} sees {seen:,} keys; {last[50]['keys']:,} of them "
        f"hold half of its attention, {last[95]['keys']:,} hold 95 %. Dashed: uniform attention, 95 %.",
        note=SAMPLED,
        table=pa.Table.from_pylist(rows),
        terms=("coverage",),
    )

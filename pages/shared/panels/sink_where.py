"""Where are the sinks? The strip along the prompt, the heads, the budget, the kinds of token."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.sinks.budget import CONTENT, LEARNED, NEAR, PARTS, SINK, parts_of_keys, row_budget
from backend.sinks.detection import NONE_LEFT, mass_per_key, sink_tokens
from backend.sinks.token_types import TYPES
from pages.shared.address import select
from pages.shared.charts.budget_by_position import budget_by_position
from pages.shared.charts.layer_head_heat import PICKED as HEAT_PICKED
from pages.shared.charts.layer_head_heat import layer_head_heat
from pages.shared.charts.mass_budget import PICKED as BUDGET_PICKED
from pages.shared.charts.mass_budget import mass_budget
from pages.shared.charts.sink_strip import PICKED as STRIP_PICKED
from pages.shared.charts.sink_strip import sink_strip
from pages.shared.charts.token_type_bars import token_type_bars
from pages.shared.panels.figure import figure
from pages.shared.panels.readable import readable
from pages.shared.panels.sink_data import SinkData, budget_of
from pages.shared.panels.sink_sentences import key_sentence, notes, tokens_sentence
from pages.shared.view_state import ViewState

STRIPS = {"largest": "Largest importance", "heads": "Number of heads", "mass": "Share of all attention"}
STRIP_KEY = "headwater_sinks_strip"
MOST_HEADS = 18  # heads of one layer that the budget lists


def sink_where(state: ViewState, data: SinkData) -> None:
    """Draws the part."""
    strip(state, data)
    heads, shares = st.columns([0.4, 0.6], gap="medium")
    with heads, readable():
        heat(state, data)
    with shares, readable():
        layer_budget(state, data)
    along, kinds = st.columns([0.6, 0.4], gap="medium")
    with along, readable():
        head_budget(state, data)
    with kinds, readable():
        kinds_of_sinks(data)


def strip(state: ViewState, data: SinkData) -> None:
    """The prompt with what every key gets."""
    how = state.more("strip", "largest")
    how = how if how in STRIPS else "largest"
    st.session_state[STRIP_KEY] = how
    st.segmented_control(
        "The strip shows", list(STRIPS), format_func=STRIPS.get, key=STRIP_KEY, on_change=_take_strip,
        label_visibility="collapsed",
    )  # fmt: skip
    found = data.found
    known = np.isfinite(found.values)
    largest = np.where(known.any((0, 1)), np.where(known, found.values, -1.0).max((0, 1)), np.nan)
    level = np.where(np.isfinite(found.uniform).any(0), np.nan_to_num(found.uniform, nan=-1.0).max(0), np.nan)
    shown = {
        "largest": (largest, level, "importance (weight)"),
        "heads": (data.sinks.sum((0, 1)).astype(float), None, "heads of which it is a sink"),
        "mass": (mass_per_key(found), uniform_mass(data), "share of all attention"),
    }
    values, uniform, title = shown[how]
    learned = {"largest": np.nanmax(found.learned), "mass": np.nanmean(found.learned)}.get(how)
    chart = sink_strip(
        values,
        data.labels,
        sinks=data.sinks.any((0, 1)),
        uniform=uniform,
        title=title,
        selected=None if data.learned_chosen else data.key,
        learned=float(learned) if data.has_learned and learned is not None else None,
        percent=how == "mass",
    )
    figure(
        "sinks_strip",
        chart,
        sentence=tokens_sentence(data),
        note=" ".join(notes(data)),
        table=token_table(data),
        terms=("importance", "detected_sink"),
        on_pick=_take_key,
        pick=STRIP_PICKED,
    )


def uniform_mass(data: SinkData) -> np.ndarray:
    """Share of all attention that each key would get from uniform attention, [N]."""
    found = data.found
    received = np.nan_to_num(found.uniform)[:, None] * found.rows
    return received.sum((0, 1)) / (found.queries * max(found.heads, 1))


def token_table(data: SinkData) -> pa.Table:
    """The sinks: position, token, type, heads, largest importance and where, share of all attention."""
    tokens = sink_tokens(data.found, data.sinks)
    return pa.table(
        {
            "key": [one.key for one in tokens],
            "token": [data.tokens[one.key].label for one in tokens],
            "type": [data.types[one.key] for one in tokens],
            "heads": [one.heads for one in tokens],
            "largest_importance": [one.largest for one in tokens],
            "in_head": ["{}.{}".format(*one.largest_head) for one in tokens],
            "share_of_all_attention": [one.mass for one in tokens],
        }
    )


def heat(state: ViewState, data: SinkData) -> None:
    """Layers by heads: what the chosen key gets."""
    if data.has_learned:
        words = "the learned sink" if not data.learned_chosen else data.named_key
        st.button(f"Show {words}", on_click=_swap_learned, args=(data.learned_chosen,), key="headwater_sinks_learned")
    values = data.head_values
    title = "mass on the learned sink" if data.learned_chosen else f"importance of token {data.key}"
    chart = layer_head_heat(
        data.found.layers, values, title=title, selected=(state.layer, state.head), palette=state.palette
    )
    layers, heads = np.nonzero(data.found.there)
    table = pa.table(
        {
            "layer": [data.found.layers[at] for at in layers],
            "head": heads,
            "value": values[layers, heads],
            "importance_of_token_0": data.found.first[layers, heads],
            "sink_head": (np.nan_to_num(data.found.first) > data.limits.epsilon)[layers, heads],
        }
    )
    figure(
        "sinks_heads",
        chart,
        sentence=key_sentence(data),
        table=table,
        terms=("importance", "sink_head"),
        on_pick=_take_head,
        pick=HEAT_PICKED,
    )


def layer_budget(state: ViewState, data: SinkData) -> None:
    """Where attention goes in every layer, mean over its heads."""
    found, there = budget_of(data), data.found.there
    if not np.isfinite(found.shares[there]).any():
        st.text("The mass budget is not defined because no row sees two keys: none had a choice.")
        return
    parts, shares = shown_parts(found.shares, found.known)
    layers = np.array([np.nanmean(shares[at][there[at]], 0) for at in range(len(shares))])
    uniform = np.array([np.nanmean(found.uniform[at][there[at]]) for at in range(len(shares))])
    names = [str(layer) for layer in data.found.layers]
    chart = mass_budget(names, parts, layers, uniform=uniform, selected=str(state.layer))
    means = dict(zip(parts, np.nanmean(shares[there], 0), strict=True))
    told = ", ".join(f"{part} {share:.0%}" for part, share in means.items() if share >= 0.005)
    layer_at, head_at = np.nonzero(there)
    table = pa.table(
        {
            "layer": [data.found.layers[at] for at in layer_at],
            "head": head_at,
            **{part.replace(" ", "_"): shares[layer_at, head_at, place] for place, part in enumerate(parts)},
            "sink_under_uniform_attention": found.uniform[layer_at, head_at],
        }
    )
    figure(
        "sinks_budget",
        chart,
        sentence=f"Mean over all heads: {told}. Near is fewer than {data.limits.near} tokens away.",
        note=None if NEAR in parts else "Near and content are one part here: it takes exact maps to tell them apart.",
        table=table,
        terms=("mass_budget", "sink_mass"),
        on_pick=_take_layer,
        pick=BUDGET_PICKED,
    )


def shown_parts(shares: np.ndarray, known: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The parts and [L, H, parts]; near and content are one where some head cannot tell them apart."""
    told_apart = known | ~np.isfinite(shares[..., 0])
    if told_apart.all():
        return list(PARTS), shares
    at, rest = PARTS.index(NEAR), PARTS.index(CONTENT)
    merged = np.concatenate([shares[..., :at], shares[..., rest:] + np.nan_to_num(shares[..., at : at + 1])], -1)
    return [*PARTS[:at], "near or content"], merged


def head_budget(state: ViewState, data: SinkData) -> None:
    """The rows of the chosen head."""
    place = data.place(state.layer)
    parts = parts_of_keys(data.types, data.sinks[place, state.head])
    rows = row_budget(data.analysis, state.layer, state.head, parts, data.kind, data.limits.near)
    late = rows[len(rows) // 2 :]
    sink = float(np.nanmean(late[:, PARTS.index(SINK)])) if np.isfinite(late).any() else 0.0
    told = (
        f"Head {state.layer}.{state.head}, row by row: in the second half of the prompt {sink:.0%} goes to its sinks."
    )
    if state.without_sinks():
        rows = rows_without_sinks(rows)
        told += " Shown without them: every row's other parts are brought back to 100 %."
    chart = budget_by_position(PARTS, rows)
    table = pa.table({"query": np.arange(len(rows)), **{p.replace(" ", "_"): rows[:, i] for i, p in enumerate(PARTS)}})
    figure(
        "sinks_rows",
        chart,
        sentence=told,
        table=table,
        terms=("mass_budget", "sink_free_view"),
    )


def rows_without_sinks(rows: np.ndarray) -> np.ndarray:
    """The parts of every row without sinks and learned sink, [Nq, parts]; NaN where less than 1e-6 is left."""
    kept = rows.copy()
    kept[:, [PARTS.index(LEARNED), PARTS.index(SINK)]] = 0.0
    left = kept.sum(-1, keepdims=True)
    return np.divide(kept, left, out=np.full(kept.shape, np.nan), where=left >= NONE_LEFT)


def kinds_of_sinks(data: SinkData) -> None:
    """Which kinds of token are sinks."""
    counts = data.sinks.sum((0, 1))
    eligible = (data.found.rows >= data.limits.least).any((0, 1))
    if not counts.any():
        st.text("No token is a sink, so there are no kinds to show.")
        return
    kinds = np.array(data.types)
    there = [kind for kind in TYPES if (kinds[eligible] == kind).any()]
    share = [counts[kinds == kind].sum() / counts.sum() for kind in there]
    common = [(kinds[eligible] == kind).mean() for kind in there]
    best = int(np.argmax(share))
    table = pa.table(
        {
            "type": there,
            "head_sink_pairs": [int(counts[kinds == kind].sum()) for kind in there],
            "share_of_sinks": share,
            "share_of_tokens": common,
        }
    )
    figure(
        "sinks_types",
        token_type_bars(there, share, common),
        sentence=f"{share[best]:.0%} of all pairs of a head and its sink are of the kind “{there[best]}”, which is "
        f"{common[best]:.0%} of the tokens (the tick).",
        table=table,
        terms=("detected_sink",),
    )


def _take_strip() -> None:
    chosen = st.session_state[STRIP_KEY]
    select(strip=None if chosen in (None, "largest") else chosen)


def _picked(key: str, pick: str) -> dict:
    points = st.session_state[key].selection.get(pick, [])
    return points[0] if points else {}


def _take_key() -> None:
    key = _picked("sinks_strip_chart", STRIP_PICKED).get("key")
    if isinstance(key, int):
        select(**({"sink": "learned"} if key < 0 else {"key": key, "sink": None}))


def _take_head() -> None:
    point = _picked("sinks_heads_chart", HEAT_PICKED)
    if all(isinstance(point.get(name), int) for name in ("layer", "head")):
        select(layer=point["layer"], head=point["head"])


def _take_layer() -> None:
    layer = str(_picked("sinks_budget_chart", BUDGET_PICKED).get("bar", ""))
    if layer.isdecimal():
        select(layer=int(layer))


def _swap_learned(shown: bool) -> None:
    select(sink=None if shown else "learned")

"""Why is it a sink? Norms, angles and scores of the chosen key, value-weighted shares, massive numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.sinks.detection import sink_heads
from backend.sinks.massive import FACTOR, LARGE, TIMES, MassiveDimension, massive_activations, massive_dimensions
from backend.sinks.mechanics import Mechanics, as_columns, hidden_norms, mechanics
from backend.sinks.value_weighted import Shares, shares
from pages.shared.address import select
from pages.shared.charts.band_heat import band_heat
from pages.shared.charts.by_layer_dots import by_layer_dots
from pages.shared.charts.raw_and_weighted import PICKED, raw_and_weighted
from pages.shared.panels.figure import figure
from pages.shared.panels.readable import readable
from pages.shared.panels.sink_data import SinkData
from pages.shared.view_state import ViewState

TURNED = "Queries and keys are those after the rotary turn, which leaves the size of a pair as it was."
UNTURNED = "Some belong to no pair that a rotary embedding is known to turn, so all are shown by dimension."


def sink_why(state: ViewState, data: SinkData) -> None:
    """Draws the part."""
    found = _mechanics(data, data.analysis.id, data.kind, data.key)
    st.text(mechanics_sentence(data, found))
    four_charts(state, data, found)
    weighted, massive = st.columns([0.45, 0.55], gap="medium")
    with weighted, readable():
        value_weighted(state, data)
    with massive, readable():
        activations(data)
    with readable():
        dimensions(state, data)


def mechanics_sentence(data: SinkData, found: Mechanics) -> str:
    """The chosen key beside the others, over the heads of which it is a sink."""
    where = data.sinks[:, :, data.key]
    heads = int(where.sum())
    if not heads:
        return f"T{data.named_key[1:]} is a sink of no head; its numbers are shown all the same."
    told = []
    for name, words in (("key_norm", "keys"), ("value_norm", "values")):
        values = getattr(found, name)[where]
        if np.isfinite(values).any():
            told.append(f"its {words} have {np.nanmedian(values):.2f} times the norm of the others")
    cosine, other = found.cosine[where], found.other_cosine[where]
    if np.isfinite(cosine).any():
        angles = f"{np.nanmedian(cosine):.2f} (others {np.nanmedian(other) + 0.0:.2f})"
        told.append(f"queries point to it with a cosine of {angles}")
    middle = ", ".join(told) or "no norms were kept"
    return f"T{data.named_key[1:]}, median over the {heads} heads of which it is a sink: {middle}."


def four_charts(state: ViewState, data: SinkData, found: Mechanics) -> None:
    """Key norm, value norm, cosine, logit gap."""
    chosen = (state.layer, state.head)
    layers = data.found.layers
    other = np.array([np.nanmedian(line) if np.isfinite(line).any() else np.nan for line in found.other_cosine])
    columns = as_columns(found)
    layer_at, head_at = np.nonzero(data.found.there)
    base = {"layer": [layers[at] for at in layer_at], "head": head_at}
    charts = {
        "key_norm": ("norm of the key / median", {"reference": 1.0, "log": True}, "norm_ratio"),
        "value_norm": ("norm of the value / median", {"reference": 1.0, "log": True}, "norm_ratio"),
        "cosine": ("cosine to queries", {"other": other, "other_name": "other keys"}, "cosine_to_queries"),
        "gap": ("logit gap (nats)", {"reference": 0.0}, "logit_gap"),
    }
    for box, (name, (title, options, term)) in zip([*st.columns(2), *st.columns(2)], charts.items(), strict=True):
        with box, readable():
            if not np.isfinite(columns[name]).any():
                st.text(f"{title}: not defined because {reason(data, name)}.")
                continue
            named = [name, *{"value_norm": ["output_norm"], "cosine": ["other_cosine"]}.get(name, [])]
            table = pa.table({**base, **{one: columns[one][layer_at, head_at] for one in named}})
            chart = by_layer_dots(layers, getattr(found, name), title=title, selected=chosen, **options)
            figure(f"why_{name}", chart, table=table, terms=(term,))


def reason(data: SinkData, name: str) -> str:
    """Why a number of every head is missing."""
    if len(data.tokens) < 2:
        return "there is no other token to compare with"
    if data.analysis.info.get("implementation") == "dense":
        return "this model computes its own softmax: its probabilities were read, and its keys are not to be seen"
    return "no head was kept exactly" if name in ("cosine", "gap") else "the file holds no such norms"


def value_weighted(state: ViewState, data: SinkData) -> None:
    """Raw share beside value-weighted share, all heads."""
    found = _shares(data, data.analysis.id, data.kind, data.limits.detection)
    strong = sink_heads(data.found, data.limits.epsilon)
    known = np.isfinite(found.raw) & np.isfinite(found.weighted)
    if not known.any():
        st.text("The value-weighted share is not defined because the output norms were not kept for this model.")
        return
    rows = [
        {
            "layer": data.found.layers[layer],
            "head": int(head),
            "raw": float(found.raw[layer, head]),
            "weighted": float(found.weighted[layer, head]),
            "sink_head": bool(strong[layer, head]),
        }
        for layer, head in np.argwhere(known)
    ]
    both = known & strong
    larger = int((found.raw > found.weighted)[both].sum())
    means = (float(found.raw[both].mean()), float(found.weighted[both].mean())) if both.any() else (0.0, 0.0)
    figure(
        "why_weighted",
        raw_and_weighted(rows, (state.layer, state.head)),
        sentence=f"In {larger} of {int(both.sum())} sink heads the sinks' share of attention is larger than their "
        f"value-weighted share (means {means[0]:.0%} and {means[1]:.0%}).",
        table=pa.Table.from_pylist(rows),
        terms=("value_weighted_share",),
        on_pick=_take_head,
        pick=PICKED,
    )


def activations(data: SinkData) -> None:
    """The residual stream of the chosen key beside that of the median token."""
    if data.kind != "self":
        st.text("Massive activations are not defined because this kind of attention has no residual stream of its own.")
        return
    largest = hidden_norms(data.analysis, data.found, "max_abs")
    if not np.isfinite(largest).any():
        st.text("Massive activations are not defined because the file holds no norms of the residual stream.")
        return
    found = massive_activations(data.analysis, data.found)
    others = np.delete(largest, data.key, 1)
    middle = np.array([np.nanmedian(row) if np.isfinite(row).any() else np.nan for row in others])
    positions = sorted({one.position for one in found})
    named = ", ".join(f"{p} “{data.tokens[p].label}”" for p in positions[:4])
    most = max(found, key=lambda one: one.times_median, default=None)
    told = (
        f"Massive activations: token {named}{' and more' if len(positions) > 4 else ''}, up to "
        f"{most.times_median:,.0f} times the median magnitude of its layer (layer {most.layer})."
        if most
        else f"No token has a massive activation: a number above {LARGE:g} and {TIMES:,.0f} times its layer's median."
    )
    chart = by_layer_dots(
        data.found.layers,
        largest[:, data.key : data.key + 1],
        title=f"largest magnitude, token {data.key}",
        other=middle,
        other_name="the median token",
        own_name=f"token {data.key}",
        log=True,
        height=330,
    )
    rows = [vars(one) for one in found]
    table = pa.Table.from_pylist(rows) if rows else pa.table({"layer": [], "position": []})
    figure(
        "why_activations",
        chart,
        sentence=told,
        note="The median is estimated from the norms in the file.",
        table=table,
        terms=("massive_activation",),
    )


def dimensions(state: ViewState, data: SinkData) -> None:
    """Massive dimensions of queries and keys by layer and frequency band."""
    found = _dimensions(data, data.analysis.id, data.kind)
    if not found:
        exact = any(data.analysis.exact_heads(layer, data.kind) for layer in data.found.layers)
        st.text(
            f"No dimension of any head is above {FACTOR:g} times the mean."
            if exact
            else "Massive dimensions are not defined because no head was kept exactly."
        )
        return
    rotary = all(one.band is not None for one in found)
    cells: dict[tuple, dict] = {}
    for one in found:
        place = one.band if rotary else one.dimension
        cell = cells.setdefault((one.part, one.layer, place), {"part": one.part, "layer": one.layer, "band": place})
        cell["times"] = max(cell.get("times", 0.0), one.times_mean)
        cell["count"] = cell.get("count", 0) + 1
    queries = sum(one.part == "query" for one in found)
    slow = sum(rotary and one.band >= one.bands // 2 for one in found) / len(found)
    told = (
        f"{queries} dimensions of query heads and {len(found) - queries} of key heads are above {FACTOR:g} times the "
        f"mean (an unverified limit)."
    )
    told += f" {slow:.0%} of them lie in the slower half of the rotary bands." if rotary else ""
    title = "rotary band, 0 = fastest" if rotary else "dimension of the head"
    bands = found[0].bands if rotary else max(one.width for one in found)
    figure(
        "why_dimensions",
        band_heat(list(cells.values()), bands, data.found.layers, palette=state.palette, title=title),
        sentence=told,
        note=f"{TURNED if rotary else UNTURNED} Values are not kept in the file.",
        table=pa.Table.from_pylist([vars(one) for one in found]),
        terms=("massive_dimension",),
    )


@st.cache_resource(max_entries=24, show_spinner="Norms, angles and scores")
def _mechanics(_data: SinkData, id: str, kind: str, key: int) -> Mechanics:
    return mechanics(_data.analysis, _data.found, key, kind)


@st.cache_resource(max_entries=24, show_spinner=False)
def _shares(_data: SinkData, id: str, kind: str, limits: tuple) -> Shares:
    return shares(_data.analysis, _data.found, _data.sinks, kind)


@st.cache_resource(max_entries=24, show_spinner=False)
def _dimensions(_data: SinkData, id: str, kind: str) -> list[MassiveDimension]:
    return massive_dimensions(_data.analysis, _data.found, kind)


def _take_head() -> None:
    points = st.session_state["why_weighted_chart"].selection.get(PICKED, [])
    if points and all(isinstance(points[0].get(name), int) for name in ("layer", "at")):
        select(layer=points[0]["layer"], head=points[0]["at"])

"""The card of the chosen head: every number it has, what that means, what uniform attention gives, where it stands."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import streamlit as st

from backend import head_labels, head_scores, statistics
from backend.atlas import Atlas
from backend.store import Analysis
from pages.shared.charts.head_profile import head_profile
from pages.shared.panels.atlas_data import atlas_of, limits_of, source_of
from pages.shared.panels.figure import figure
from pages.shared.panels.head_classes import head_classes
from pages.shared.panels.head_sentences import three_digits
from pages.shared.view_state import ViewState


def atlas_card(state: ViewState, analysis: Analysis) -> None:
    """Draws the card of the head in the address."""
    atlas = atlas_of(state, analysis, sampled=True)
    known = {**statistics.all(), **head_scores.all()}
    values = atlas.of(state.layer, state.head)
    names = [name for name in known if name in values and math.isfinite(values[name])]
    for line in label_sentences(atlas, state.layer, state.head, limits_of(state)):
        st.text(line)
    rows = [row_of(atlas, known, name, state.layer, state.head) for name in names]
    figure(
        "atlas_card",
        head_profile(rows) if rows else None,
        sentence=sentence(atlas, names, state.layer, state.head),
        table=table_of(atlas, known, state.layer, state.head),
        terms=(*names, "share_of_heads"),
        note=undefined(known, values),
    )
    head_classes(state, analysis)


def label_sentences(atlas: Atlas, layer: int, head: int, limits: dict[str, float]) -> list[str]:
    """What the head does by the rules, each with the number and the line it crossed."""
    given = atlas.labels(limits)[layer, head]
    if not given:
        return [f"Head {layer}.{head} fits no rule."]
    lines = []
    for name, value in given.items():
        label = head_labels.all()[name]
        first = label.conditions[0]
        number = first.score.replace("_", " ") + (" / uniform" if first.relative else "")
        limit = limits.get(first.name, first.limit)
        source = source_of(name, atlas.probed)
        side = "above" if first.above else "below"
        lines.append(f"{label.words}: {label.says} {number} {three_digits(value)}{source}, {side} the limit {limit:g}.")
    return lines


def sentence(atlas: Atlas, names: list[str], layer: int, head: int) -> str:
    """Where the head stands out most."""
    if not names:
        return f"Head {layer}.{head} has no defined number here."
    count = sum(atlas.heads)
    name = max(names, key=lambda one: abs(atlas.middle(one, layer, head) - 0.5))
    share = atlas.percentile(name, layer, head)
    many = (
        f"{share:.0%} of {count} heads have at most"
        if share >= 0.5
        else f"only {share:.0%} of {count} heads have at most"
    )
    return f"Head {layer}.{head} stands out in {name.replace('_', ' ')}: {many} its value."


def row_of(atlas: Atlas, known: dict, name: str, layer: int, head: int) -> dict:
    """One line of the picture."""
    value, uniform = atlas.of(layer, head)[name], atlas.uniform.get(name, {}).get(layer)
    values = atlas.values[name][np.isfinite(atlas.values[name])]
    unit = known[name].unit
    return {
        "name": name.replace("_", " "),
        "share": atlas.percentile(name, layer, head),
        "value": f"{three_digits(value)} {unit}",
        "uniform": "not said" if uniform is None else f"{three_digits(uniform)} {unit}",
        "uniform_share": None if uniform is None else float((values <= uniform).mean()),
    }


def table_of(atlas: Atlas, known: dict, layer: int, head: int) -> pa.Table:
    """All numbers, the undefined ones as null."""
    names = [name for name in known if name in atlas.values]
    values = atlas.of(layer, head)

    def numbers(found: list[float | None]) -> pa.Array:
        return pa.array([None if one is None or one != one else one for one in found], pa.float64())

    return pa.table(
        {
            "number": pa.array([name.replace("_", " ") for name in names]),
            "value": numbers([values[name] for name in names]),
            "unit": pa.array([known[name].unit for name in names]),
            "uniform attention": numbers([atlas.uniform.get(name, {}).get(layer) for name in names]),
            "heads at or below": numbers([atlas.percentile(name, layer, head) for name in names]),
            "measured on": pa.array(["random repeat" if name in atlas.probed else "this text" for name in names]),
            "meaning": pa.array([known[name].caption for name in names]),
        }
    )


def undefined(known: dict, values: dict[str, float]) -> str | None:
    """The numbers this head does not have."""
    names = [name.replace("_", " ") for name in known if name in values and not math.isfinite(values[name])]
    return f"Undefined here, because no row or key of this text qualifies: {', '.join(names)}." if names else None

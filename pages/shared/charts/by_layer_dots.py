"""Dots per head over layers with the median as a line: one number of every head, a reference dashed."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.numbers import PLAIN
from pages.shared.charts.rows import data_of

SINK_COLOUR, OTHER_COLOUR, BASELINE_COLOUR, SELECTED_COLOUR = "#d0611c", "#6f7f99", "#808080", "#e4572e"


def by_layer_dots(
    layers: Sequence[int],
    values: np.ndarray,
    *,
    title: str,
    reference: float | None = None,
    other: np.ndarray | None = None,
    other_name: str = "",
    own_name: str = "median of heads",
    selected: tuple[int, int] | None = None,
    log: bool = False,
    height: int = 230,
) -> alt.LayerChart:
    """values [L, H], NaN where undefined; other [L]: a second line; selected: (layer, head) with a ring."""
    rows = [
        {"layer": int(layer), "head": f"{layer}.{head}", "value": float(value), "chosen": (layer, head) == selected}
        for layer, line in zip(layers, values, strict=True)
        for head, value in enumerate(line)
        if np.isfinite(value) and (value > 0 or not log)
    ]
    middle = lines_of(layers, values, own_name)
    if other is not None:
        middle += lines_of(layers, other[:, None], other_name)
    names = [own_name] + ([other_name] if other is not None else [])
    scale = alt.Scale(type="log") if log else alt.Scale(zero=False)
    x = alt.X("layer:Q", title="layer", axis=alt.Axis(tickMinStep=1, tickCount=6))
    y = alt.Y("value:Q", title=title, scale=scale, axis=alt.Axis(tickCount=4, format=PLAIN))
    tips = [alt.Tooltip("head:N", title="head"), alt.Tooltip("value:Q", title=title, format=".3~g")]
    dots = alt.Chart(data_of(rows)).mark_circle(size=14, color=OTHER_COLOUR, opacity=0.45)
    dots = dots.encode(x=x, y=y, tooltip=tips)
    ring = alt.Chart(data_of([row for row in rows if row["chosen"]]))
    ring = ring.mark_point(size=90, strokeWidth=2, color=SELECTED_COLOUR).encode(x=x, y=y, tooltip=tips)
    line = alt.Chart(data_of(middle)).mark_line(strokeWidth=2)
    line = line.encode(
        x=x,
        y=y,
        color=alt.Color(
            "name:N",
            title=None,
            scale=alt.Scale(domain=names, range=[SINK_COLOUR, OTHER_COLOUR][: len(names)]),
            legend=alt.Legend(orient="top"),
        ),
        strokeDash=alt.StrokeDash("name:N", scale=alt.Scale(domain=names, range=[[1, 0], [6, 3]]), legend=None),
        tooltip=[alt.Tooltip("layer:Q"), alt.Tooltip("name:N", title="line"), *tips[1:]],
    )
    rule = alt.Chart(data_of([{"value": reference}] if reference is not None else []))
    rule = rule.mark_rule(color=BASELINE_COLOUR, strokeDash=[4, 3]).encode(y=y)
    return alt.layer(rule, dots, line, ring).properties(height=height)


def lines_of(layers: Sequence[int], values: np.ndarray, name: str) -> list[dict]:
    """The median over heads of every layer."""
    known = [np.isfinite(line).any() for line in values]
    return [
        {"layer": int(layer), "value": float(np.nanmedian(line)), "name": name}
        for layer, line, here in zip(layers, values, known, strict=True)
        if here
    ]

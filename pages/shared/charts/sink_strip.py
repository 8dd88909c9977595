"""The strip along the prompt: what every key gets, sinks marked, uniform attention dashed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import altair as alt
import numpy as np

from pages.shared.charts.numbers import PLAIN
from pages.shared.charts.rows import data_of

PICKED = "picked"  # name of the selection a click makes; its points carry `key`
SINK_COLOUR, OTHER_COLOUR, BASELINE_COLOUR, SELECTED_COLOUR = "#d0611c", "#6f7f99", "#808080", "#e4572e"
COLOURS = {"key": OTHER_COLOUR, "sink": SINK_COLOUR, "learned sink": "#7a3a10"}
MOST_LABELS = 72  # tokens that have room for their words
MOST_BARS = 360  # above this, neighbours share a bar


def sink_strip(
    values: np.ndarray,
    labels: Sequence[str],
    *,
    sinks: np.ndarray,
    uniform: np.ndarray | None,
    title: str,
    selected: int | None = None,
    learned: float | None = None,
    percent: bool = False,
) -> alt.LayerChart:
    """values [N], NaN where undefined; sinks bool [N]; uniform [N] or None; learned: the bar of the learned sink.

    A prompt of many tokens has bars of several tokens: the largest of them, with its word.
    """
    rows = bars_of(values, labels, sinks, uniform)
    if learned is not None:
        rows.insert(0, {"place": -1, "key": -1, "name": "learned", "value": learned, "what": "learned sink"})
    for row in rows:
        row["name"] = f"▸ {row['name']}" if row["key"] == selected and selected is not None else row["name"]
    names = [row["name"] for row in rows]
    words = len(names) <= MOST_LABELS
    axis = alt.Axis(labelAngle=-90, labelLimit=80, labelOverlap=False, labelFlush=False)
    if not words:
        axis = alt.Axis(labelAngle=0, labelOverlap="greedy", labelExpr="split(datum.label, ' ')[0]", labelFlush=False)
    x = alt.X(
        "name:N", sort=names, title=None if words else "key (position)", axis=axis, scale=alt.Scale(paddingInner=0.1)
    )
    kinds = [kind for kind in ("key", "sink", "learned sink") if any(row["what"] == kind for row in rows)]
    form = ".1%" if percent else ".4~g"
    bars = (
        alt.Chart(data_of([row for row in rows if row["value"] is not None]))
        .mark_bar(cursor="pointer")
        .encode(
            x=x,
            y=alt.Y("value:Q", title=title, axis=alt.Axis(tickCount=4, format="%" if percent else PLAIN)),
            color=alt.Color(
                "what:N",
                title=None,
                scale=alt.Scale(domain=kinds, range=[COLOURS[kind] for kind in kinds]),
                legend=alt.Legend(orient="top") if len(kinds) > 1 else None,
            ),
            tooltip=[alt.Tooltip("name:N", title="key"), alt.Tooltip("value:Q", title=title, format=form)]
            + ([alt.Tooltip("uniform:Q", title="uniform attention", format=form)] if uniform is not None else []),
        )
        .add_params(alt.selection_point(name=PICKED, fields=["key"], on="click"))
    )
    line = [row for row in rows if row.get("uniform") is not None]
    baseline = alt.Chart(data_of(line)).mark_line(color=BASELINE_COLOUR, strokeDash=[4, 3], strokeWidth=1.5)
    return alt.layer(bars, baseline.encode(x=x, y="uniform:Q")).properties(height=290)


def bars_of(values: np.ndarray, labels: Sequence[str], sinks: np.ndarray, uniform: np.ndarray | None) -> list[dict]:
    """One bar per token, or of the largest of several neighbours; None where no token of a bar has a value."""
    count = min(len(values), MOST_BARS)
    edges = np.arange(count + 1) * len(values) // count
    rows = []
    for start, stop in pairwise(edges.tolist()):
        part = values[start:stop]
        best = int(start + np.nanargmax(part)) if np.isfinite(part).any() else int(start)
        value = float(values[best]) if np.isfinite(values[best]) else None
        level = float(uniform[best]) if uniform is not None and np.isfinite(uniform[best]) else None
        rows.append(
            {
                "place": int(start),
                "key": best,
                "name": f"{best} {labels[best]}",
                "value": value,
                "uniform": level,
                "what": "sink" if sinks[start:stop].any() else "key",
            }
        )
    return rows

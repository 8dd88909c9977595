"""Dots with intervals, one line per kind of text; what others published stands beside, hollow and grey."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

OWN_COLOUR, OTHER_COLOUR = "#d0611c", "#808080"
OWN, OTHERS = "measured here", "published, other models"


def percent_dots(rows: Sequence[dict], published: Sequence[dict]) -> alt.LayerChart:
    """rows: set, percent, low, high (None without an interval), samples. published: set, percent, model, source."""
    own = [{**row, "what": OWN} for row in rows]
    other = [{**row, "what": OTHERS} for row in published]
    names = list(dict.fromkeys(row["set"] for row in [*own, *other]))
    y = alt.Y("set:N", sort=names, title=None)
    scale = alt.Scale(domain=[0, 100])
    x = alt.X("percent:Q", title="heads that are sink heads (%)", scale=scale, axis=alt.Axis(tickCount=6))
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=[OWN, OTHERS], range=[OWN_COLOUR, OTHER_COLOUR]),
        legend=alt.Legend(orient="top"),
    )
    intervals = alt.Chart(data_of([row for row in own if row["low"] is not None]))
    intervals = intervals.mark_rule(strokeWidth=3, color=OWN_COLOUR, opacity=0.6).encode(
        y=y, x=alt.X("low:Q", scale=scale), x2="high:Q"
    )
    dots = alt.Chart(data_of(own)).mark_point(filled=True, size=110, opacity=1)
    dots = dots.encode(
        x=x,
        y=y,
        color=colour,
        tooltip=[
            alt.Tooltip("set:N", title="texts"),
            alt.Tooltip("percent:Q", title="sink heads (%)", format=".1f"),
            alt.Tooltip("low:Q", title="95 % interval from", format=".1f"),
            alt.Tooltip("high:Q", title="to", format=".1f"),
            alt.Tooltip("samples:Q", title="samples"),
        ],
    )
    beside = alt.Chart(data_of(other)).mark_point(shape="diamond", size=70, filled=False, strokeWidth=1.5)
    beside = beside.encode(
        x=x,
        y=y,
        color=colour,
        tooltip=[
            alt.Tooltip("model:N", title="model"),
            alt.Tooltip("percent:Q", title="sink heads (%)", format=".2f"),
            alt.Tooltip("source:N", title="source"),
        ],
    )
    return alt.layer(intervals, beside, dots).properties(height=max(190, 60 * len(names) + 90))

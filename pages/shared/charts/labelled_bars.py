"""A few labelled bars in the order given, each with what uniform attention would give as a dashed tick."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.numbers import PLAIN
from pages.shared.charts.rows import data_of

BAR_COLOUR, MARKED_COLOUR, BASELINE_COLOUR = "#6f7f99", "#e4572e", "#808080"
HEIGHT = 440
WORDS = "split(replace(datum.label, ' %', '\u00a0%'), ' ')"  # a line of its own for each: none is cut off


def labelled_bars(
    labels: Sequence[str],
    values: Sequence[float],
    *,
    title: str,
    uniform: Sequence[float | None] | None = None,
    marked: Sequence[bool] | None = None,
    percent: bool = False,
    scale: float = 1.0,
) -> alt.LayerChart:
    """labels, values: one per bar. marked: bars in the colour of what is chosen. scale: size of the type."""
    size = round(13 * scale)
    across = alt.X("label:N", sort=list(labels), title=None, axis=_words(size))
    marks = ["marked" if mark else "plain" for mark in marked or [False] * len(labels)]
    rows = [
        {"label": label, "value": float(value), "mark": mark}
        for label, value, mark in zip(labels, values, marks, strict=True)
    ]
    lines = [
        {"label": label, "value": float(value)}
        for label, value in zip(labels, uniform or [None] * len(labels), strict=True)
        if value is not None
    ]
    up = alt.Axis(format=".0%" if percent else PLAIN, labelFontSize=size)
    bars = _bars(rows).encode(
        x=across,
        y=alt.Y("value:Q", title=None, axis=up),
        tooltip=[alt.Tooltip("label:N", title=" "), alt.Tooltip("value:Q", title=title, format=".4~g")],
    )
    both = alt.layer(bars, _ticks(lines).encode(x=across, y="value:Q"))
    named = alt.TitleParams(title, anchor="start", fontSize=size + 2)
    return both.properties(height=HEIGHT, title=named)


def _words(size: int) -> alt.Axis:
    return alt.Axis(labelAngle=0, labelFontSize=size, labelExpr=WORDS, labelLimit=0, labelOverlap=False)


def _bars(rows: list[dict]) -> alt.Chart:
    colours = alt.Scale(domain=["plain", "marked"], range=[BAR_COLOUR, MARKED_COLOUR])
    return alt.Chart(data_of(rows)).mark_bar().encode(color=alt.Color("mark:N", legend=None, scale=colours))


def _ticks(lines: list[dict]) -> alt.Chart:
    chart = alt.Chart(data_of(lines)).mark_tick(color=BASELINE_COLOUR, thickness=3)
    return chart.encode(tooltip=[alt.Tooltip("value:Q", title="uniform attention", format=".4~g")])

"""Budget against damage: one colour per policy, the truth a solid line, the prediction that costs no run dotted."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.numbers import PLAIN
from pages.shared.charts.rows import data_of

PICKED = "picked"  # name of the selection a click makes; its points carry `choice` and `budget`
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c564b", "#7f7f7f"]
SHAPES = ["circle", "square", "triangle-up", "cross", "diamond", "triangle-right", "triangle-down"]  # one fewer
LEAST = 1e-6  # nats; smaller values are drawn here
HEIGHT = 360


def pareto(rows: Sequence[dict], *, selected: tuple[str, float] | None = None) -> alt.LayerChart:
    """rows: choice, title, budget, kept, kl (or None), prediction."""
    points = [
        {
            **{name: row[name] for name in ("choice", "title", "budget", "kept")},
            "line": line,
            "value": max(value, LEAST),
            "chosen": (row["choice"], row["budget"]) == selected,
        }
        for row in rows
        for line, value in (("measured", row["kl"]), ("predicted", row["prediction"]))
        if value is not None and row["kept"] is not None
    ]
    titles = list(dict.fromkeys(row["title"] for row in rows))
    base = alt.Chart(data_of(points)).encode(
        x=alt.X("kept:Q", title="kept, share", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("value:Q", title="damage (nats, log)", scale=alt.Scale(type="log"), axis=alt.Axis(format=PLAIN)),
        color=alt.Color(
            "title:N",
            title=None,
            scale=alt.Scale(domain=titles, range=[COLOURS[at % len(COLOURS)] for at in range(len(titles))]),
            legend=alt.Legend(orient="right", labelLimit=130),
        ),
        tooltip=[
            alt.Tooltip("title:N", title="policy"),
            alt.Tooltip("line:N", title="damage"),
            alt.Tooltip("kept:Q", title="kept", format=".3~p"),
            alt.Tooltip("value:Q", title="nats", format=".3~g"),
        ],
    )
    dash = alt.StrokeDash(
        "line:N",
        title=None,
        scale=alt.Scale(domain=["measured", "predicted"], range=[[1, 0], [2, 3]]),
        legend=alt.Legend(orient="top"),
    )
    lines = base.mark_line(size=2).encode(strokeDash=dash, detail="choice:N")
    marks = base.mark_point(filled=True, size=70, cursor="pointer").encode(
        shape=alt.Shape(
            "title:N",
            scale=alt.Scale(domain=titles, range=[SHAPES[at % len(SHAPES)] for at in range(len(titles))]),
            legend=None,
        ),
        stroke=alt.condition("datum.chosen", alt.value("#e4572e"), alt.value(None)),
        strokeWidth=alt.condition("datum.chosen", alt.value(4), alt.value(0)),
    )
    marks = marks.add_params(alt.selection_point(name=PICKED, fields=["choice", "budget"], on="click"))
    return alt.layer(lines, marks).properties(height=HEIGHT)

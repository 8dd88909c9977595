"""What a query gave: one column over another, as bars, a line or points."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.numbers import PLAIN
from pages.shared.charts.rows import data_of

COLOUR = "#2d6cb5"
MARKS = ("bars", "line", "points")
HEIGHT = 260


def query_chart(
    across: Sequence[object], up: Sequence[float], *, x: str, y: str, mark: str, numbers: bool, scale: float = 1.0
) -> alt.Chart:
    """x, y: names of the two columns, shown as titles only. numbers: whether `across` holds numbers, else texts.

    The rows keep the order of the query.
    """
    size = round(12 * scale)
    rows = [
        {"across": one if numbers else str(one), "up": float(two), "row": number}
        for number, (one, two) in enumerate(zip(across, up, strict=True))
    ]
    kind = "quantitative" if numbers and mark != "bars" else "ordinal" if numbers else "nominal"
    whole = kind == "quantitative" and all(isinstance(one, int) for one in across)  # no layer is called 0.1
    steps = {"tickMinStep": 1, "format": "d"} if whole else {}
    axis = alt.Axis(labelFontSize=size, titleFontSize=size, labelOverlap=True, labelLimit=140, **steps)
    chart = alt.Chart(data_of(rows))
    shape = {
        "bars": chart.mark_bar(color=COLOUR),
        "line": chart.mark_line(color=COLOUR, point=len(rows) <= 60),
        "points": chart.mark_circle(color=COLOUR, size=40, opacity=0.7),
    }[mark]
    return shape.encode(
        x=alt.X("across", type=kind, title=x, sort=None, axis=axis, scale=alt.Scale(zero=False)),
        y=alt.Y("up:Q", title=y, axis=alt.Axis(labelFontSize=size, titleFontSize=size, format=PLAIN)),
        tooltip=[
            alt.Tooltip("across", type=kind, title=x),
            alt.Tooltip("up:Q", title=y, format=".4~g"),
            alt.Tooltip("row:Q", title="row of the answer"),
        ],
    ).properties(height=HEIGHT)

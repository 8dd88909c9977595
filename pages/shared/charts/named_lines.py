"""Lines with names over one axis; a dashed grey one may be the baseline."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.numbers import PLAIN
from pages.shared.charts.rows import data_of

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
DASHES = [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3]]
BASELINE_COLOUR = "#808080"
HEIGHT = 280


def named_lines(
    rows: Sequence[dict],
    *,
    x: str,
    y: str,
    x_format: str = PLAIN,
    y_format: str = PLAIN,
    log: bool = False,
    baseline: Sequence[dict] = (),
    top: float | None = None,
) -> alt.LayerChart:
    """rows: name, x, y. x and y are the titles. top: end of the y axis, which begins at 0."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    scale = alt.Scale(type="log") if log else alt.Scale(domain=[0, top]) if top is not None else alt.Scale()
    across = alt.X("x:Q", title=x, axis=alt.Axis(format=x_format), scale=alt.Scale(nice=False))
    up = alt.Y("y:Q", title=y, axis=alt.Axis(format=y_format), scale=scale)
    lines = (
        alt.Chart(data_of(list(rows)))
        .mark_line(size=2, point={"size": 20})
        .encode(
            x=across,
            y=up,
            color=alt.Color(
                "name:N",
                title=None,
                scale=alt.Scale(domain=names, range=[COLOURS[at % 6] for at in range(len(names))]),
                legend=alt.Legend(orient="top", columns=2, labelLimit=220),
            ),
            strokeDash=alt.StrokeDash(
                "name:N", legend=None, scale=alt.Scale(domain=names, range=[DASHES[at % 6] for at in range(len(names))])
            ),
            tooltip=[
                alt.Tooltip("name:N", title="line"),
                alt.Tooltip("x:Q", title=x, format=".3~g"),
                alt.Tooltip("y:Q", title=y, format=".4~g"),
            ],
        )
    )
    flat = alt.Chart(data_of(list(baseline))).mark_line(color=BASELINE_COLOUR, strokeDash=[4, 3], size=1.5)
    return alt.layer(lines, flat.encode(x=across, y=up)).properties(height=HEIGHT)

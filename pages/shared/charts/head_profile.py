"""One head among all: for each number, the share of heads that have at most its value."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

SELECTED_COLOUR, BASELINE_COLOUR = "#e4572e", "#808080"
ROW = 20  # pixels


def head_profile(rows: Sequence[dict]) -> alt.LayerChart:
    """rows: {name, share, value, uniform, uniform_share}: shares 0 to 1, texts for the hover.

    The dot is the head; the grey line is where uniform attention would stand among the heads. `uniform_share` may be
    None.
    """
    names = [row["name"] for row in rows]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=170, labelFlush=False, labelOverlap=False))
    scale = alt.Scale(domain=[0, 1])
    axis = alt.Axis(format="%", tickCount=5, titleAnchor="end")  # a narrow plot has more room before than behind it
    tooltip = [
        alt.Tooltip("name:N", title="number"),
        alt.Tooltip("value:N", title="this head"),
        alt.Tooltip("uniform:N", title="uniform attention"),
        alt.Tooltip("share:Q", title="heads at or below", format=".0%"),
    ]
    base = alt.Chart(data_of(list(rows)))
    lines = base.mark_rule(color="#80808055").encode(x=alt.value(0), y=y, x2=alt.value("width"))
    dots = base.mark_point(filled=True, size=90, color=SELECTED_COLOUR, opacity=1).encode(
        x=alt.X("share:Q", scale=scale, axis=axis, title="heads with at most this value"), y=y, tooltip=tooltip
    )
    known = [row for row in rows if row["uniform_share"] is not None]
    ticks = alt.Chart(data_of(known)).mark_tick(color=BASELINE_COLOUR, thickness=2.5, size=14)
    ticks = ticks.encode(x=alt.X("uniform_share:Q", scale=scale, axis=axis), y=y, tooltip=tooltip)
    return alt.layer(lines, ticks, dots).properties(height=alt.Step(ROW))

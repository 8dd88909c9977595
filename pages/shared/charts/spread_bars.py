"""A mean with its range over prompts: a dot, and a line from the least to the most."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

COLOUR = "#0072b2"


def spread_bars(rows: Sequence[dict], *, title: str) -> alt.LayerChart:
    """rows: title, retained (mean), least, most; shares."""
    names = [row["title"] for row in rows]
    base = alt.Chart(data_of(list(rows))).encode(
        y=alt.Y("title:N", sort=names, title=None, axis=alt.Axis(labelLimit=160)),
        tooltip=[
            alt.Tooltip("title:N", title="policy"),
            alt.Tooltip("retained:Q", title="mean", format=".3~p"),
            alt.Tooltip("least:Q", title="least", format=".3~p"),
            alt.Tooltip("most:Q", title="most", format=".3~p"),
        ],
    )
    x = alt.X("least:Q", title=title, axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    lines = base.mark_rule(color=COLOUR, size=3, opacity=0.5).encode(x=x, x2="most:Q")
    dots = base.mark_circle(color=COLOUR, size=90, opacity=1).encode(x="retained:Q")
    return alt.layer(lines, dots).properties(height=alt.Step(26))

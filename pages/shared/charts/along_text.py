"""One number per token along the text, as bars; zero is the axis."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

HEIGHT = 180
COLOUR = "#4c78a8"


def along_text(rows: Sequence[dict], *, title: str) -> alt.Chart:
    """rows: position, label, value."""
    return (
        alt.Chart(data_of(list(rows)))
        .mark_bar(color=COLOUR)
        .encode(
            x=alt.X("position:Q", title="token", scale=alt.Scale(nice=False, zero=False)),
            y=alt.Y("value:Q", title=title),
            tooltip=[
                alt.Tooltip("position:Q", title="token"),
                alt.Tooltip("label:N", title="text"),
                alt.Tooltip("value:Q", title=title, format=".3~g"),
            ],
        )
        .properties(height=HEIGHT)
    )

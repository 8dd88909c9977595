"""Sink heads of every prompt of a set, by length: one dot per prompt, the mean as a line with its spread."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

SINK_COLOUR, OTHER_COLOUR = "#d0611c", "#6f7f99"


def set_by_length(prompts: Sequence[dict], lengths: Sequence[dict]) -> alt.LayerChart:
    """prompts: name, begins, percent. lengths: name, percent, from_, to (mean minus and plus the spread). In order."""
    names = list(dict.fromkeys(row["name"] for row in lengths))
    x = alt.X("name:N", sort=names, title="tokens of each prompt", axis=alt.Axis(labelAngle=0))
    scale = alt.Scale(domain=[0, 100])
    dots = alt.Chart(data_of(list(prompts))).mark_circle(size=30, color=OTHER_COLOUR, opacity=0.5)
    dots = dots.encode(
        x=x,
        y=alt.Y("percent:Q", title="heads that are sink heads (%)", scale=scale),
        xOffset=alt.XOffset("place:Q", scale=alt.Scale(domain=[-1, 2])),
        tooltip=[
            alt.Tooltip("begins:N", title="prompt"),
            alt.Tooltip("tokens:Q", title="tokens"),
            alt.Tooltip("percent:Q", title="sink heads (%)", format=".1f"),
        ],
    )
    spread = alt.Chart(data_of([row for row in lengths if row["from_"] is not None]))
    spread = spread.mark_rule(color=SINK_COLOUR, strokeWidth=3, opacity=0.6).encode(x=x, y="from_:Q", y2="to:Q")
    means = alt.Chart(data_of(list(lengths))).mark_point(filled=True, size=110, color=SINK_COLOUR, opacity=1)
    means = means.encode(
        x=x,
        y=alt.Y("percent:Q", scale=scale),
        tooltip=[
            alt.Tooltip("name:N", title="tokens"),
            alt.Tooltip("percent:Q", title="mean (%)", format=".1f"),
            alt.Tooltip("prompts:Q", title="prompts"),
        ],
    )
    return alt.layer(dots, spread, means).properties(height=320)

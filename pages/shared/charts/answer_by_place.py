"""How probable the reference answer is where the part that holds it stands at each place."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of

LINE_COLOUR = "#3b6ea5"


def answer_by_place(places: Sequence[int], logprobs: Sequence[float], *, title: str) -> alt.LayerChart:
    """places: from 0; logprobs: nats, finite ones are drawn."""
    rows = [
        {"place": int(place) + 1, "value": float(value)}
        for place, value in zip(places, logprobs, strict=True)
        if np.isfinite(value)
    ]
    base = alt.Chart(data_of(rows)).encode(
        x=alt.X("place:O", title="place of the part that holds the answer", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
        tooltip=[
            alt.Tooltip("place:O", title="place"),
            alt.Tooltip("value:Q", title=title, format=".4~f"),
        ],
    )
    return alt.layer(
        base.mark_line(color=LINE_COLOUR), base.mark_point(color=LINE_COLOUR, filled=True, size=60)
    ).properties(height=220)

"""Effects around zero as bars: what adds to the right of the line, what takes away to the left."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of

MORE_COLOUR, LESS_COLOUR, ZERO_COLOUR = "#3b6ea5", "#d98a3d", "#808080"


def effect_bars(names: Sequence[str], values: np.ndarray, *, title: str, format: str = ".4~p") -> alt.LayerChart:
    """values [K]; NaN has no bar. Bars in the order given."""
    rows = [
        {"name": name, "value": float(value), "what": "more" if value >= 0 else "less"}
        for name, value in zip(names, values, strict=True)
        if np.isfinite(value)
    ]
    axis = alt.Axis(labelLimit=160, labelOverlap=False)
    bars = (
        alt.Chart(data_of(rows))
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title=title, axis=alt.Axis(format=format.replace(".4", ""), tickCount=5)),
            y=alt.Y("name:N", sort=list(names), title=None, axis=axis),
            color=alt.Color(
                "what:N", legend=None, scale=alt.Scale(domain=["more", "less"], range=[MORE_COLOUR, LESS_COLOUR])
            ),
            tooltip=[alt.Tooltip("name:N", title="what"), alt.Tooltip("value:Q", title=title, format=format)],
        )
    )
    zero = alt.Chart(data_of([{"zero": 0.0}])).mark_rule(color=ZERO_COLOUR).encode(x="zero:Q")
    return alt.layer(bars, zero).properties(height=alt.Step(20))

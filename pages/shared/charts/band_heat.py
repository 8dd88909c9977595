"""Heat of layers by rotary bands: where queries and keys have massive dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of


def band_heat(rows: Sequence[dict], bands: int, layers: Sequence[int], *, palette: str, title: str) -> alt.FacetChart:
    """rows: part ("query" or "key"), layer, band, times (largest times the mean), count (heads)."""
    heat = (
        alt.Chart(data_of(list(rows)))
        .mark_rect()
        .encode(
            x=alt.X(
                "band:O",
                title=title,
                scale=alt.Scale(domain=list(range(bands))),
                axis=alt.Axis(labelOverlap="greedy", labelAngle=0),
            ),
            y=alt.Y(
                "layer:O", title="layer", scale=alt.Scale(domain=list(layers)), axis=alt.Axis(labelOverlap="greedy")
            ),
            color=alt.Color("times:Q", title="times the mean", scale=alt.Scale(scheme=palette)),
            tooltip=[
                alt.Tooltip("part:N", title="of"),
                alt.Tooltip("layer:O", title="layer"),
                alt.Tooltip("band:O", title="band"),
                alt.Tooltip("times:Q", title="largest, times the mean", format=".1f"),
                alt.Tooltip("count:Q", title="heads"),
            ],
        )
        .properties(width=330, height=alt.Step(9))
    )
    return heat.facet(column=alt.Column("part:N", title=None, sort=["query", "key"]))

"""Heat of layers by positions: the mean of something for every layer and key."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

DIVERGING = ("#2166ac", "#f7f7f7", "#d0611c")


def layer_position_heat(
    rows: Sequence[dict], *, title: str, palette: str, around_zero: bool = False, x: str = "key", y: str = "layer"
) -> alt.Chart:
    """rows: x, y, value, cells (number of cells in the mean). around_zero: colours of both signs."""
    values = [row["value"] for row in rows]
    if around_zero:
        most = max((abs(value) for value in values), default=1.0) or 1.0
        scale = alt.Scale(domain=[-most, 0, most], range=list(DIVERGING))
    else:
        scale = alt.Scale(scheme=palette, domain=[0.0, max(values, default=1.0) or 1.0])
    axes = {
        name: sorted({row[name] for row in rows})
        for name in (x, y)
    }  # fmt: skip
    return (
        alt.Chart(data_of(list(rows)))
        .mark_rect()
        .encode(
            x=alt.X(
                f"{x}:O",
                title=f"{x} (position)",
                scale=alt.Scale(domain=axes[x]),
                axis=alt.Axis(labelAngle=0, labelOverlap="greedy"),
            ),
            y=alt.Y(f"{y}:O", title=y, scale=alt.Scale(domain=axes[y]), axis=alt.Axis(labelOverlap="greedy")),
            color=alt.Color("value:Q", title=title, scale=scale),
            tooltip=[
                alt.Tooltip(f"{y}:O", title=y),
                alt.Tooltip(f"{x}:O", title=x),
                alt.Tooltip("value:Q", title=title, format=".4~g"),
                alt.Tooltip("cells:Q", title="cells in the mean", format=","),
            ],
        )
        .properties(height=alt.Step(12), title=alt.TitleParams(title, anchor="start", fontSize=12))
    )

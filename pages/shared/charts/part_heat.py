"""Parts against parts: who gives how much to whom, as a heat chart. What cannot be seen is grey, not zero."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of

UNSEEN_COLOUR = "#9a9a9a"
MANY = 24  # from here some labels are left out
SHORT = "replace(datum.label, 'document ', '')"


def part_heat(
    rows: Sequence[str], columns: Sequence[str], mass: np.ndarray, *, palette: str = "cividis", side: int = 300
) -> alt.LayerChart:
    """mass [rows, columns] shares; NaN = the row's part cannot see the column's part."""
    cells, unseen = [], []
    for a, row in enumerate(rows):
        for b, column in enumerate(columns):
            place = {"giver": row, "receiver": column}
            if np.isfinite(mass[a, b]):
                cells.append({**place, "value": float(mass[a, b])})
            else:
                unseen.append({**place, "why": "out of sight"})
    scale = {"paddingInner": 0.03}
    x = alt.X(
        "receiver:N",
        sort=list(columns),
        title="gets",
        scale=alt.Scale(domain=list(columns), **scale),
        axis=alt.Axis(labelAngle=-50, labelExpr=SHORT, labelOverlap=len(columns) > MANY),
    )
    axis = alt.Axis(labelExpr=SHORT, labelOverlap=len(rows) > MANY)
    y = alt.Y("giver:N", sort=list(rows), title="gives", scale=alt.Scale(domain=list(rows), **scale), axis=axis)
    names = [alt.Tooltip("giver:N", title="from"), alt.Tooltip("receiver:N", title="to")]
    heat = (
        alt.Chart(data_of(cells))
        .mark_rect()
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "value:Q",
                title="share",
                scale=alt.Scale(scheme=palette, domainMin=0),
                legend=alt.Legend(format="~p", gradientLength=140),
            ),
            tooltip=[*names, alt.Tooltip("value:Q", title="share", format=".4~p")],
        )
    )
    grey = alt.Chart(data_of(unseen)).mark_rect(color=UNSEEN_COLOUR, opacity=0.25)
    grey = grey.encode(x=x, y=y, tooltip=[*names, alt.Tooltip("why:N", title="share")])
    return alt.layer(grey, heat).properties(height=side)

"""Curves over a limit: how many heads stay above it as it rises; the chosen limit is the dashed line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from pages.shared.charts.rows import data_of

COLOURS = ("#d0611c", "#4c78a8", "#54a24b", "#9467bd")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])  # nothing is said by colour alone
BASELINE_COLOUR = "#808080"


def limit_curves(
    limits: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    *,
    chosen: float,
    x_title: str,
    y_title: str,
    uniform: float | None = None,
) -> alt.LayerChart:
    """curves: name -> percentage per limit. uniform: from this limit on, uniform attention has no head above."""
    names = list(curves)
    rows = [
        {"limit": float(limit), "name": name, "percent": float(value)}
        for name, values in curves.items()
        for limit, value in zip(limits, values, strict=True)
    ]
    lines = (
        alt.Chart(data_of(rows))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("limit:Q", title=x_title, axis=alt.Axis(tickCount=6)),
            y=alt.Y("percent:Q", title=y_title, scale=alt.Scale(domain=[0, 100])),
            color=alt.Color(
                "name:N",
                title=None,
                sort=names,
                scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])),
                legend=alt.Legend(orient="top"),
            ),
            strokeDash=alt.StrokeDash(
                "name:N", sort=names, scale=alt.Scale(domain=names, range=list(DASHES[: len(names)])), legend=None
            ),
            tooltip=[
                alt.Tooltip("name:N", title="texts"),
                alt.Tooltip("limit:Q", title=x_title, format=".3~g"),
                alt.Tooltip("percent:Q", title=y_title, format=".1f"),
            ],
        )
    )
    marks = [{"limit": chosen, "what": "chosen limit"}]
    marks += [{"limit": uniform, "what": "uniform attention"}] if uniform is not None else []
    rules = alt.Chart(data_of(marks)).mark_rule(color=BASELINE_COLOUR, strokeDash=[4, 3])
    rules = rules.encode(x="limit:Q", tooltip=[alt.Tooltip("what:N", title="line"), alt.Tooltip("limit:Q")])
    return alt.layer(lines, rules).properties(height=270)

"""Stacked bars: where attention goes, one bar per layer or head, the parts adding up to 1."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of

COLOURS = {
    "learned sink": "#7a3a10",
    "sink": "#d0611c",
    "special": "#8e6bb0",
    "punctuation": "#3d8f8a",
    "near": "#5b7fb5",
    "content": "#b9c4d6",
    "near or content": "#8ba0c4",
}
TICK_COLOUR = "#808080"
PICKED = "picked"  # name of the selection a click makes; its points carry `bar`


def mass_budget(
    bars: Sequence[str],
    parts: Sequence[str],
    shares: np.ndarray,
    *,
    uniform: np.ndarray | None = None,
    bar_title: str = "layer",
    selected: str | None = None,
) -> alt.LayerChart:
    """shares [bars, parts], NaN parts are left out; uniform [bars]: a tick, what uniform attention gives the sinks."""
    names = [f"▸ {bar}" if bar == selected else bar for bar in bars]
    rows = [
        {"bar": bar, "name": name, "part": part, "order": order, "share": float(share)}
        for bar, name, line in zip(bars, names, shares, strict=True)
        for order, (part, share) in enumerate(zip(parts, line, strict=True))
        if np.isfinite(share)
    ]
    there = [part for part in parts if any(row["part"] == part and row["share"] > 0 for row in rows)]
    y = alt.Y("name:N", sort=names, title=bar_title, axis=alt.Axis(labelOverlap=True, labelLimit=70))
    stacked = (
        alt.Chart(data_of(rows))
        .mark_bar(cursor="pointer")
        .encode(
            y=y,
            x=alt.X("share:Q", title="share of attention", stack="zero", axis=alt.Axis(format="%", tickCount=5)),
            color=alt.Color(
                "part:N",
                title=None,
                sort=there,
                scale=alt.Scale(domain=there, range=[COLOURS[part] for part in there]),
                legend=alt.Legend(orient="top", columns=3),
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("bar:N", title=bar_title),
                alt.Tooltip("part:N", title="part"),
                alt.Tooltip("share:Q", title="share", format=".1%"),
            ],
        )
        .add_params(alt.selection_point(name=PICKED, fields=["bar"], on="click"))
    )
    levels = [np.nan] * len(names) if uniform is None else uniform
    ticks = [{"name": n, "uniform": float(v)} for n, v in zip(names, levels, strict=True) if np.isfinite(v)]
    tick = alt.Chart(data_of(ticks)).mark_tick(color=TICK_COLOUR, thickness=2, strokeDash=[3, 2])
    tick = tick.encode(
        y=y, x="uniform:Q", tooltip=[alt.Tooltip("uniform:Q", title="sinks under uniform attention", format=".1%")]
    )
    return alt.layer(stacked, tick).properties(height=alt.Step(18))

"""Bars: which kinds of token are sinks, beside how common these kinds are."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

SINK_COLOUR, BASELINE_COLOUR = "#d0611c", "#808080"


def token_type_bars(types: Sequence[str], shares: Sequence[float], expected: Sequence[float]) -> alt.LayerChart:
    """shares: part of all sinks that are of the type; expected: part of the tokens that are, the dashed tick."""
    rows = [
        {"type": kind, "share": float(share), "expected": float(common)}
        for kind, share, common in zip(types, shares, expected, strict=True)
    ]
    y = alt.Y("type:N", sort=list(types), title=None)
    tips = [
        alt.Tooltip("type:N", title="type"),
        alt.Tooltip("share:Q", title="of all sinks", format=".1%"),
        alt.Tooltip("expected:Q", title="of all tokens", format=".1%"),
    ]
    bars = alt.Chart(data_of(rows)).mark_bar(color=SINK_COLOUR)
    bars = bars.encode(
        y=y, x=alt.X("share:Q", title="share of all (head, sink) pairs", axis=alt.Axis(format="%")), tooltip=tips
    )
    ticks = alt.Chart(data_of(rows)).mark_tick(color=BASELINE_COLOUR, thickness=2)
    return alt.layer(bars, ticks.encode(y=y, x="expected:Q", tooltip=tips)).properties(height=alt.Step(22))

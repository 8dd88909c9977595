"""Paired bars: probabilities of the next tokens before and after a change."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

BEFORE_COLOUR, AFTER_COLOUR = "#6f7f99", "#d0611c"
SIDES = ("before", "after")


def before_after(names: Sequence[str], before: Sequence[float], after: Sequence[float]) -> alt.Chart:
    """Bars in the order given; names are for display."""
    labels = [f"{place + 1}. {name}" for place, name in enumerate(names)]  # equal names stay apart
    rows = [
        {"name": label, "side": side, "value": float(value)}
        for label, pair in zip(labels, zip(before, after, strict=True), strict=True)
        for side, value in zip(SIDES, pair, strict=True)
    ]
    return (
        alt.Chart(data_of(rows))
        .mark_bar()
        .encode(
            y=alt.Y("name:N", sort=labels, title=None, axis=alt.Axis(labelLimit=140, labelOverlap=False)),
            yOffset=alt.YOffset("side:N", sort=list(SIDES)),
            x=alt.X("value:Q", title="probability of the next token", axis=alt.Axis(format="%", tickCount=5)),
            color=alt.Color(
                "side:N",
                title=None,
                scale=alt.Scale(domain=list(SIDES), range=[BEFORE_COLOUR, AFTER_COLOUR]),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=[
                alt.Tooltip("name:N", title="token"),
                alt.Tooltip("side:N", title="side"),
                alt.Tooltip("value:Q", title="probability", format=".2%"),
            ],
        )
        .properties(height=alt.Step(11))
    )

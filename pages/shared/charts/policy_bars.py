"""Policies by what they retain: a bar each, and a tick at the most that as many keys per head could retain."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

PICKED = "picked"  # name of the selection a click makes; its points carry `policy`
SELECTED_COLOUR, OTHER_COLOUR, BASELINE_COLOUR, TICK_COLOUR = "#e4572e", "#4c78a8", "#808080", "#9467bd"


def policy_bars(rows: Sequence[dict], *, selected: str, uniform: float) -> alt.LayerChart:
    """rows: policy, title, retained, best_possible, overlap, kept. uniform: what uniform attention would retain."""
    shown = [{**row, "name": f"▸ {row['title']}" if row["policy"] == selected else row["title"]} for row in rows]
    names = [row["name"] for row in sorted(shown, key=lambda row: -row["retained"])]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=160, labelOverlap=False))
    x = alt.X("retained:Q", title="attention of later rows retained", scale={"domain": [0, 1]}, axis={"format": "%"})
    tooltip = [
        alt.Tooltip("title:N", title="policy"),
        alt.Tooltip("retained:Q", format=".4~p"),
        alt.Tooltip("best_possible:Q", title="the best keys, as many per head", format=".4~p"),
        alt.Tooltip("overlap:Q", title="overlap with them", format=".3~p"),
        alt.Tooltip("kept:Q", title="keys kept", format=".3~p"),
    ]
    base = alt.Chart(data_of(shown)).encode(y=y)
    bars = (
        base.mark_bar(cursor="pointer")
        .encode(
            x=x,
            color=alt.condition(
                alt.FieldEqualPredicate(field="policy", equal=selected),
                alt.value(SELECTED_COLOUR),
                alt.value(OTHER_COLOUR),
            ),
            tooltip=tooltip,
        )
        .add_params(alt.selection_point(name=PICKED, fields=["policy"], on="click"))
    )
    ticks = base.mark_tick(color=TICK_COLOUR, thickness=2, size=14).encode(x="best_possible:Q", tooltip=tooltip)
    rule = alt.Chart(data_of([{"uniform": uniform}])).mark_rule(color=BASELINE_COLOUR, strokeDash=[4, 3])
    rule = rule.encode(x="uniform:Q", tooltip=[alt.Tooltip("uniform:Q", title="uniform attention", format=".3~p")])
    return alt.layer(bars, ticks, rule).properties(height=alt.Step(21))

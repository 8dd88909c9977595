"""Map of heads: like heads are close; the group as colour and shape, the chosen head and those like it marked."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

PICKED = "picked"  # name of the selection a click makes; its points carry `layer` and `head`
SELECTED_COLOUR = "#e4572e"
COLOURS = ("#0072b2", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#6a51a3", "#d0611c", "#7f8a96")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right")


def head_places(points: Sequence[dict]) -> alt.LayerChart:
    """points: {layer, head, name, x, y, group, role, distance, labels}; role "" or "selected" or "alike"."""
    groups = sorted({point["group"] for point in points}, key=int)
    x = alt.X("x:Q", title=None, axis=alt.Axis(labels=False, ticks=False, domain=False), scale=alt.Scale(zero=False))
    y = alt.Y("y:Q", title=None, axis=alt.Axis(labels=False, ticks=False, domain=False), scale=alt.Scale(zero=False))
    tooltip = [
        alt.Tooltip("name:N", title="head"),
        alt.Tooltip("group:N", title="group"),
        alt.Tooltip("distance:N", title="from the chosen head"),
        alt.Tooltip("labels:N", title="labels"),
    ]
    dots = (
        alt.Chart(data_of(list(points)))
        .mark_point(filled=True, size=70, opacity=0.85, cursor="pointer")
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "group:N",
                title="group",
                scale=alt.Scale(domain=groups, range=list(COLOURS[: len(groups)])),
                legend=alt.Legend(orient="top"),
            ),
            shape=alt.Shape(
                "group:N", title="group", scale=alt.Scale(domain=groups, range=list(SHAPES[: len(groups)]))
            ),
            tooltip=tooltip,
        )
        .add_params(alt.selection_point(name=PICKED, fields=["layer", "head"], on="click"))
    )
    marked = [point for point in points if point["role"]]
    rings = (
        alt.Chart(data_of(marked))
        .mark_point(filled=False, size=190, strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=alt.condition(
                alt.FieldEqualPredicate(field="role", equal="selected"),
                alt.value(SELECTED_COLOUR),
                alt.value("#808080"),
            ),
            tooltip=tooltip,
        )
    )
    chosen = [point for point in marked if point["role"] == "selected"]
    names = alt.Chart(data_of(chosen)).mark_text(dx=14, dy=-12, fontSize=12, color=SELECTED_COLOUR)
    names = names.encode(x=x, y=y, text="name:N")
    return alt.layer(dots, rings, names).properties(height=420)

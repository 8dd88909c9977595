"""Every head as a dot: the sinks' share of its attention, and of what it fetches; equal shares are the dashed line."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

PICKED = "picked"  # name of the selection a click makes; its points carry `layer` and `at`
SINK_COLOUR, OTHER_COLOUR, BASELINE_COLOUR, SELECTED_COLOUR = "#d0611c", "#6f7f99", "#808080", "#e4572e"
KINDS = ("sink head", "other head")


def raw_and_weighted(rows: Sequence[dict], selected: tuple[int, int] | None = None) -> alt.LayerChart:
    """rows: layer, head, raw, weighted (shares), sink_head (bool)."""
    points = [
        {
            "layer": row["layer"],
            "at": row["head"],
            "name": f"{row['layer']}.{row['head']}",
            "raw": row["raw"],
            "weighted": row["weighted"],
            "kind": KINDS[0] if row["sink_head"] else KINDS[1],
        }
        for row in rows
    ]
    x = alt.X("raw:Q", title="share of attention on sinks", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    y = alt.Y("weighted:Q", title="value-weighted share", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    dots = (
        alt.Chart(data_of(points))
        .mark_point(filled=True, size=36, opacity=0.75, cursor="pointer")
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=list(KINDS), range=[SINK_COLOUR, OTHER_COLOUR]),
                legend=alt.Legend(orient="top"),
            ),
            shape=alt.Shape("kind:N", scale=alt.Scale(domain=list(KINDS), range=["circle", "square"]), legend=None),
            tooltip=[
                alt.Tooltip("name:N", title="head"),
                alt.Tooltip("raw:Q", title="share of attention", format=".1%"),
                alt.Tooltip("weighted:Q", title="value-weighted", format=".1%"),
            ],
        )
        .add_params(alt.selection_point(name=PICKED, fields=["layer", "at"], on="click"))
    )
    equal = alt.Chart(data_of([{"raw": 0.0, "weighted": 0.0}, {"raw": 1.0, "weighted": 1.0}]))
    equal = equal.mark_line(color=BASELINE_COLOUR, strokeDash=[4, 3]).encode(x=x, y=y)
    chosen = [point for point in points if (point["layer"], point["at"]) == selected]
    ring = alt.Chart(data_of(chosen)).mark_point(size=120, strokeWidth=2, color=SELECTED_COLOUR)
    return alt.layer(equal, dots, ring.encode(x=x, y=y)).properties(height=330)

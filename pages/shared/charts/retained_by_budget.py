"""What each family of patterns keeps of the attention, by the share of pairs that it may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from pages.shared.charts.rows import data_of

COLOURS = {"local": "#0072b2", "diagonal": "#56b4e9", "A-shape": "#e69f00", "block": "#009e73",
           "vertical-slash": "#cc79a7"}  # fmt: skip
BASELINE_COLOUR = "#808080"
HEIGHT = 340


def retained_by_budget(
    curves: Mapping[str, Sequence[tuple[float, float]]], best: Sequence[tuple[float, float]], *, budget: float
) -> alt.LayerChart:
    """curves: name -> (share of the visible pairs, share of the mass). best: the strongest pairs, wherever they lie.

    A line stands at the budget; the dashed one is what any choice would keep of uniform attention.
    """
    rows = [{"name": name, "pairs": x, "mass": y} for name, line in curves.items() for x, y in line]
    rows += [{"name": "any pairs", "pairs": x, "mass": y} for x, y in best]
    x = alt.X("pairs:Q", title="kept, share of the visible pairs", axis=alt.Axis(format="%"), scale={"domain": [0, 1]})
    y = alt.Y("mass:Q", title="share of the attention kept", axis=alt.Axis(format="%"), scale={"domain": [0, 1]})
    names = [*COLOURS, "any pairs"]
    tooltip = [
        alt.Tooltip("name:N", title="pattern"),
        alt.Tooltip("pairs:Q", title="pairs", format=".3~p"),
        alt.Tooltip("mass:Q", title="attention kept", format=".3~p"),
    ]
    lines = (
        alt.Chart(data_of(rows))
        .mark_line(size=2)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "name:N",
                title=None,
                scale=alt.Scale(domain=names, range=[*COLOURS.values(), "#9467bd"]),
                legend=alt.Legend(orient="top", columns=3, labelLimit=180),
            ),
            strokeDash=alt.StrokeDash(
                "name:N",
                scale=alt.Scale(domain=names, range=[[1, 0], [6, 2], [1, 0], [6, 2], [1, 0], [2, 2]]),
                legend=None,
            ),
            tooltip=tooltip,
        )
    )
    flat = alt.Chart(data_of([{"pairs": 0, "mass": 0}, {"pairs": 1, "mass": 1}]))
    flat = flat.mark_line(color=BASELINE_COLOUR, strokeDash=[4, 3], size=1.5).encode(x=x, y=y)
    rule = alt.Chart(data_of([{"pairs": budget}])).mark_rule(color=BASELINE_COLOUR).encode(x=x)
    return alt.layer(lines, flat, rule).properties(height=HEIGHT)

"""Choices of blocks and patterns at several budgets: what each keeps, by the share of pairs that it really reads."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

NAMES = {"best blocks": "best blocks", "quest": "Quest", "moba": "MoBA", "a_shape": "A-shape",
         "vertical_slash": "vertical-slash"}  # fmt: skip
COLOURS = ["#009e73", "#0072b2", "#d55e00", "#e69f00", "#cc79a7"]
BASELINE_COLOUR = "#808080"
HEIGHT = 300


def block_choices(table: Sequence[dict]) -> alt.LayerChart:
    """table: choice, side (tokens a block, None for patterns), budget, density, retained."""
    rows = [
        {**row, "name": NAMES[row["choice"]], "blocks": "" if row["side"] is None else f"blocks of {row['side']}"}
        for row in table
    ]
    wide = max([row["density"] for row in rows], default=1.0)
    x = alt.X("density:Q", title="pairs read, share of the visible ones", axis=alt.Axis(format="%"),
              scale=alt.Scale(domain=[0, wide * 1.05]))  # fmt: skip
    y = alt.Y("retained:Q", title="attention kept", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    points = (
        alt.Chart(data_of(rows))
        .mark_point(filled=True, size=60, opacity=0.85)
        .encode(
            x=x,
            y=y,
            color=alt.Color("name:N", title=None, scale=alt.Scale(domain=list(NAMES.values()), range=COLOURS),
                            legend=alt.Legend(orient="top")),
            shape=alt.Shape("name:N", title=None, scale=alt.Scale(domain=list(NAMES.values())), legend=None),
            tooltip=[
                alt.Tooltip("name:N", title="choice"),
                alt.Tooltip("blocks:N", title="size"),
                alt.Tooltip("budget:Q", title="budget", format=".0%"),
                alt.Tooltip("density:Q", title="pairs read", format=".3~p"),
                alt.Tooltip("retained:Q", title="attention kept", format=".3~p"),
            ],
        )
    )  # fmt: skip
    flat = alt.Chart(data_of([{"density": 0, "retained": 0}, {"density": wide, "retained": wide}]))
    flat = flat.mark_line(color=BASELINE_COLOUR, strokeDash=[4, 3], size=1.5).encode(x=x, y=y)
    return alt.layer(flat, points).properties(height=HEIGHT)

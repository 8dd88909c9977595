"""Lengths times depths: how probable the answer was in each cell, and whether it was given."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

FOUND, MISSED = "✓", "✗"


def needle_grid(rows: Sequence[dict], *, palette: str = "cividis") -> alt.LayerChart:
    """rows: length, depth (0 to 1), logprob (None: no colour), exact (1: the text holds the answer)."""
    cells = [
        {
            "length": f"{row['length']:,}",
            "depth": f"{100 * row['depth']:.0f} %",
            "value": row["logprob"],
            "mark": FOUND if row["exact"] else MISSED,
            "said": "given" if row["exact"] else "not given",
        }
        for row in rows
    ]
    lengths = [f"{length:,}" for length in sorted({row["length"] for row in rows})]
    depths = [f"{100 * depth:.0f} %" for depth in sorted({row["depth"] for row in rows})]
    base = alt.Chart(data_of(cells)).encode(
        x=alt.X("length:N", sort=lengths, title="length (tokens)", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("depth:N", sort=depths, title="depth of the needle"),
        tooltip=[
            alt.Tooltip("length:N", title="length"),
            alt.Tooltip("depth:N", title="depth"),
            alt.Tooltip("value:Q", title="ln p of the answer", format=".3f"),
            alt.Tooltip("said:N", title="the answer was"),
        ],
    )
    heat = (
        base.transform_filter("isValid(datum.value)")
        .mark_rect(stroke="white")
        .encode(color=alt.Color("value:Q", title="ln p", scale=alt.Scale(scheme=palette, domainMax=0)))
    )
    text = base.mark_text(fontSize=17, color="white", stroke="black", strokeWidth=0.5).encode(text="mark:N")
    return alt.layer(heat, text).properties(height=230)

"""What each method changed: the mean difference with its interval, beside the line of no difference."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

COLOURS = {"better": "#2f8f6b", "worse": "#b5493b", "no difference beyond chance": "#6f7f99", "not judged": "#6f7f99"}
MARKS = {"better": "▲", "worse": "▼"}
ZERO_COLOUR = "#808080"


def method_differences(rows: Sequence[dict]) -> alt.LayerChart:
    """rows: method, difference, low, high (None where there is none), verdict; one bar each, in the order given."""
    shown = [
        {
            "name": f"{MARKS.get(row['verdict'], '')} {row['method']}".strip(),
            "difference": row["difference"],
            "verdict": row["verdict"],
            "low": row["low"] if row["low"] is not None else row["difference"],
            "high": row["high"] if row["high"] is not None else row["difference"],
        }
        for row in rows
        if row["difference"] is not None
    ]
    names = [row["name"] for row in shown]
    title = "change of the answer's ln probability"
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=200, labelOverlap=False))
    base = alt.Chart(data_of(shown))
    colour = alt.Color("verdict:N", legend=None, scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())))
    tooltip = [
        alt.Tooltip("name:N", title="method"),
        alt.Tooltip("verdict:N", title="verdict"),
        *(alt.Tooltip(f"{name}:Q", title=name, format="+.3f") for name in ("difference", "low", "high")),
    ]
    bars = base.mark_bar(opacity=0.8).encode(x=alt.X("difference:Q", title=title), y=y, color=colour, tooltip=tooltip)
    whiskers = base.mark_rule(size=2).encode(x="low:Q", x2="high:Q", y=y, tooltip=tooltip)
    zero = alt.Chart(data_of([{"zero": 0.0}])).mark_rule(color=ZERO_COLOUR, strokeDash=[4, 3])
    return alt.layer(bars, whiskers, zero.encode(x="zero:Q")).properties(height=alt.Step(28))

"""How many keys hold a share of a row, along the text, beside uniform attention."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

SHADES = ["#9ecae1", "#6baed6", "#3182bd", "#08519c", "#e4572e"]
BASELINE_COLOUR = "#808080"
HEIGHT = 260


def keys_by_position(rows: Sequence[dict], *, uniform: Sequence[dict]) -> alt.LayerChart:
    """rows: query, percent, keys. uniform: query, keys that hold 95 % of uniform attention."""
    x = alt.X("query:Q", title="query", scale=alt.Scale(nice=False))
    y = alt.Y("keys:Q", title="keys", scale=alt.Scale(type="log", domainMin=1))
    named = [{"query": row["query"], "share": f"{row['percent']} %", "keys": row["keys"]} for row in rows]
    order = ["50 %", "80 %", "90 %", "95 %", "99 %"]
    lines = (
        alt.Chart(data_of(named))
        .mark_line(point={"size": 14})
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "share:N",
                title="keys that hold",
                sort=order,
                scale=alt.Scale(domain=order, range=SHADES),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=["query:Q", alt.Tooltip("share:N", title="of the attention"), alt.Tooltip("keys:Q", title="keys")],
        )
    )
    flat = alt.Chart(data_of(list(uniform))).mark_line(color=BASELINE_COLOUR, strokeDash=[4, 3], size=1.5)
    flat = flat.encode(x=x, y=y, tooltip=[alt.Tooltip("keys:Q", title="uniform attention, 95 %")])
    return alt.layer(lines, flat).properties(height=HEIGHT)

"""Lines over the number of keys that are kept: one per way of keeping them, all keys dashed."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.numbers import PLAIN
from pages.shared.charts.rows import data_of

COLOURS = {"window": "#5b7fb5", "sink and window": "#d0611c", "all keys": "#808080"}
DASHES = {"window": [6, 3], "sink and window": [1, 0], "all keys": [2, 2]}


def budget_lines(rows: Sequence[dict], *, title: str, percent: bool = False, log: bool = False) -> alt.Chart:
    """rows: variant, budget, value; a value of None has no point."""
    known = [row for row in rows if row["value"] is not None]
    names = [name for name in COLOURS if any(row["variant"] == name for row in known)]
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(domain=[0, 1]) if percent else alt.Scale(zero=False)
    form = ".1%" if percent else ".4~g"
    return (
        alt.Chart(data_of(known))
        .mark_line(point=alt.OverlayMarkDef(size=50), strokeWidth=2)
        .encode(
            x=alt.X("budget:O", title="keys that are kept", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("value:Q", title=title, scale=scale, axis=alt.Axis(format="%" if percent else PLAIN, tickCount=5)),
            color=alt.Color(
                "variant:N",
                title=None,
                sort=names,
                scale=alt.Scale(domain=names, range=[COLOURS[name] for name in names]),
                legend=alt.Legend(orient="top"),
            ),
            strokeDash=alt.StrokeDash(
                "variant:N", scale=alt.Scale(domain=names, range=[DASHES[name] for name in names]), legend=None
            ),
            tooltip=[
                alt.Tooltip("variant:N", title="kept"),
                alt.Tooltip("budget:O", title="keys"),
                alt.Tooltip("value:Q", title=title, format=form),
            ],
        )
        .properties(height=310)
    )

"""Bars: the share of a head's attention on each kind of token and each part of the prompt, with that of uniform."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from backend.head_classes import ClassMass
from pages.shared.charts.rows import data_of

BAR_COLOUR, PART_COLOUR, BASELINE_COLOUR = "#6f7f99", "#b07aa1", "#808080"


def class_bars(masses: Sequence[ClassMass]) -> alt.LayerChart:
    """One bar per class in the order given, parts of the prompt in their own colour; the dashed tick is uniform."""
    rows = [
        {
            "name": f"part: {one.name}" if one.of_prompt else one.name,
            "mass": one.mass,
            "uniform": one.uniform,
            "lift": one.lift if one.lift == one.lift else None,
            "tokens": one.tokens,
            "what": "part of the prompt" if one.of_prompt else "kind of token",
        }
        for one in masses
    ]
    y = alt.Y("name:N", sort=[row["name"] for row in rows], title=None, axis=alt.Axis(labelLimit=170))
    tips = [
        alt.Tooltip("name:N", title=" "),
        alt.Tooltip("mass:Q", title="of the attention", format=".1%"),
        alt.Tooltip("uniform:Q", title="uniform attention", format=".1%"),
        alt.Tooltip("lift:Q", title="lift", format=".3~g"),
        alt.Tooltip("tokens:Q", title="tokens"),
    ]
    colour = alt.Color(
        "what:N",
        title=None,
        legend=None,
        scale=alt.Scale(domain=["kind of token", "part of the prompt"], range=[BAR_COLOUR, PART_COLOUR]),
    )
    base = alt.Chart(data_of(rows))
    bars = base.mark_bar().encode(
        y=y, x=alt.X("mass:Q", title="share of a row", axis=alt.Axis(format="%")), color=colour, tooltip=tips
    )
    ticks = base.mark_tick(color=BASELINE_COLOUR, thickness=2.5, size=14).encode(y=y, x="uniform:Q", tooltip=tips)
    return alt.layer(bars, ticks).properties(height=alt.Step(20))

"""How few keys hold how much: one thin line per head, the chosen head thick, uniform attention dashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from pages.shared.charts.rows import data_of

SELECTED_COLOUR, OTHER_COLOUR, BASELINE_COLOUR = "#e4572e", "#6f7f99", "#808080"
HEIGHT = 340
Point = tuple[float, float]  # share of the visible keys, share of the mass


def coverage_curves(
    heads: Mapping[str, Sequence[Point]], chosen: str, exact: Sequence[Point], *, smallest: float
) -> alt.LayerChart:
    """heads: "layer.head" -> points; exact: the finer curve of the chosen head. The x axis begins at `smallest`."""
    thin = [
        {"head": head, "keys": max(keys, smallest), "mass": mass} for head, line in heads.items() for keys, mass in line
    ]
    x = alt.X(
        "keys:Q",
        title="strongest keys, share of the visible ones",
        scale=alt.Scale(type="log", domain=[smallest, 1], nice=False),
        axis=alt.Axis(format="~%", values=[v for v in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1) if v >= smallest]),
    )
    y = alt.Y("mass:Q", title="share of the attention they hold", axis=alt.Axis(format="%"), scale={"domain": [0, 1]})
    tooltip = [
        alt.Tooltip("head:N", title="head"),
        alt.Tooltip("keys:Q", title="share of keys", format=".3~p"),
        alt.Tooltip("mass:Q", title="share of attention", format=".3~p"),
    ]
    lines = (
        alt.Chart(data_of(thin))
        .mark_line(color=OTHER_COLOUR, size=1, opacity=0.22)
        .encode(x=x, y=y, detail="head:N", tooltip=tooltip)
    )
    thick = [{"head": chosen, "keys": max(keys, smallest), "mass": mass} for keys, mass in exact]
    own = alt.Chart(data_of(thick)).mark_line(color=SELECTED_COLOUR, size=3).encode(x=x, y=y, tooltip=tooltip)
    steps = [smallest * (1 / smallest) ** (at / 40) for at in range(41)]
    flat = [{"keys": share, "mass": share, "head": "uniform attention"} for share in steps]
    uniform = (
        alt.Chart(data_of(flat))
        .mark_line(color=BASELINE_COLOUR, strokeDash=[4, 3], size=1.5)
        .encode(x=x, y=y, tooltip=tooltip)
    )
    return alt.layer(lines, uniform, own).properties(height=HEIGHT)

"""Where the logarithms of weights lie around the mean of their row, and the normals of the same spread beside them."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of

BAR_COLOUR, LINE_COLOUR, BASELINE_COLOUR = "#6f7f99", "#d0611c", "#808080"
MEASURED, FITTED = "measured", "fitted normal"
HEIGHT = 260


def log_weights(edges: np.ndarray, share: Sequence[float], normal: Sequence[float]) -> alt.LayerChart:
    """edges [bins + 1] in nats; share and normal [bins]: of the keys. Uniform attention lies at 0 altogether."""
    rows = [
        {"from": float(low), "to": float(high), "middle": float(low + high) / 2, "share": float(one),
         "normal": float(other)}
        for low, high, one, other in zip(edges[:-1], edges[1:], share, normal, strict=True)
    ]  # fmt: skip
    data = data_of(rows)
    across = "ln weight less the mean of its row (nats)"
    up = alt.Y("share:Q", title="share of the keys", axis=alt.Axis(format="%"))
    scale = alt.Scale(domain=[MEASURED, FITTED], range=[BAR_COLOUR, LINE_COLOUR])
    tooltip = [
        alt.Tooltip("from:Q", title="from (nats)", format=".3~g"),
        alt.Tooltip("to:Q", title="to", format=".3~g"),
        alt.Tooltip("share:Q", title="measured", format=".3~p"),
        alt.Tooltip("normal:Q", title="fitted normal", format=".3~p"),
    ]
    bars = (
        alt.Chart(data)
        .transform_calculate(what=f"'{MEASURED}'")
        .mark_bar(opacity=0.6)
        .encode(
            x=alt.X("from:Q", title=across, bin="binned"),
            x2="to:Q",
            y=up,
            color=alt.Color("what:N", title=None, scale=scale, legend=alt.Legend(orient="top")),
            tooltip=tooltip,
        )
    )
    line = (
        alt.Chart(data)
        .transform_calculate(what=f"'{FITTED}'")
        .mark_line(size=2.5, interpolate="monotone", point={"size": 12})
        .encode(x=alt.X("middle:Q", title=across), y=alt.Y("normal:Q"), color="what:N", tooltip=tooltip)
    )
    rule = alt.Chart(data_of([{"uniform": 0.0}])).mark_rule(color=BASELINE_COLOUR, strokeDash=[4, 3], size=2)
    rule = rule.encode(x="uniform:Q", tooltip=[alt.Tooltip("uniform:Q", title="uniform attention")])
    return alt.layer(bars, rule, line).properties(height=HEIGHT)

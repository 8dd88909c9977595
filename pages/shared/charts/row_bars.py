"""One row of a map as bars with words: where one query looks."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of
from pages.shared.view_state import shorten

SINK_COLOUR, OTHER_COLOUR, BASELINE_COLOUR = "#d0611c", "#6f7f99", "#808080"
LONGEST = 16  # characters of a label; longer ones lose their middle and are whole on hover


def row_bars(
    weights: np.ndarray, visible: np.ndarray, labels: Sequence[str], *, sinks: Sequence[int] = (), most: int = 24
) -> alt.LayerChart:
    """The strongest `most` visible keys in reading order.

    weights, visible: [Nk] of one row; labels: one per key. Sinks have the sinks' colour, 1 / n the dashed grey line.
    """
    keys = strongest_keys(weights, visible, most)
    rows = [
        {
            "key": int(key),
            "label": f"{key} {shorten(labels[key], LONGEST)}",
            "whole": f"{key} {labels[key]}",
            "weight": float(weights[key]),
            "what": "sink" if key in sinks else "key",
        }
        for key in keys
    ]
    names = [row["label"] for row in rows]
    bars = (
        alt.Chart(data_of(rows))
        .mark_bar()
        .encode(
            x=alt.X(
                "label:N", sort=names, title="key", axis=alt.Axis(labelAngle=-90, labelLimit=130, labelFlush=False)
            ),
            y=alt.Y("weight:Q", title="weight", axis=alt.Axis(tickCount=4, labelFlush=False)),
            color=alt.Color(
                "what:N",
                title=None,
                scale=alt.Scale(domain=["key", "sink"], range=[OTHER_COLOUR, SINK_COLOUR]),
                legend=alt.Legend(orient="top") if any(key in sinks for key in keys) else None,
            ),
            tooltip=[alt.Tooltip("whole:N", title="key"), alt.Tooltip("weight:Q", title="weight", format=".4~g")],
        )
    )
    seen = int(np.count_nonzero(visible))
    rule = alt.Chart(data_of([{"uniform": 1 / seen}] if seen else []))
    rule = rule.mark_rule(color=BASELINE_COLOUR, strokeDash=[4, 3], size=1.5).encode(
        y="uniform:Q", tooltip=[alt.Tooltip("uniform:Q", title="uniform attention", format=".4~g")]
    )
    return alt.layer(bars, rule).properties(height=300)


def strongest_keys(weights: np.ndarray, visible: np.ndarray, most: int) -> np.ndarray:
    """Indices of the largest visible finite weights, in reading order."""
    candidates = np.flatnonzero(visible & np.isfinite(weights))
    best = candidates[np.argsort(-weights[candidates], kind="stable")[:most]]
    return np.sort(best)

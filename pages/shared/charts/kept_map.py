"""A map in small cells with the kept pattern drawn over it: what is dropped lies under a grey veil."""

from __future__ import annotations

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of

SIDE = 64  # cells per axis at most: 4,096 in all
HEIGHT = 380
VEIL = "#8c8c8c"


def kept_map(
    weight: np.ndarray, kept: np.ndarray, row_edges: np.ndarray, key_edges: np.ndarray, *, palette: str
) -> alt.LayerChart:
    """weight: mean weight [P, P'], NaN where nothing is visible; kept: share of the visible cells that are kept.

    The edges are positions of tokens, [P + 1] and [P' + 1].
    """
    cells = [
        {
            "x": int(key_edges[k]),
            "x2": int(key_edges[k + 1]),
            "y": int(row_edges[r]),
            "y2": int(row_edges[r + 1]),
            "weight": float(weight[r, k]),
            "root": float(np.sqrt(weight[r, k])),
            "kept": float(kept[r, k]),
            "dropped": float(0.8 * (1 - kept[r, k])),
        }
        for r, k in zip(*np.nonzero(np.isfinite(weight)), strict=True)
    ]
    top = max((cell["root"] for cell in cells), default=1.0) or 1.0
    place = {
        "x": alt.X("x:Q", title="key", scale=alt.Scale(domain=[int(key_edges[0]), int(key_edges[-1])], nice=False)),
        "x2": "x2:Q",
        "y": alt.Y("y:Q", title="query", scale=alt.Scale(domain=[int(row_edges[-1]), int(row_edges[0])], nice=False)),
        "y2": "y2:Q",
    }
    colour = alt.Color("root:Q", title="√ weight", scale=alt.Scale(scheme=palette, domain=[0, top]))
    tooltip = [
        alt.Tooltip("y:Q", title="from query"),
        alt.Tooltip("x:Q", title="from key"),
        alt.Tooltip("weight:Q", title="mean weight", format=".3~g"),
        alt.Tooltip("kept:Q", title="kept", format=".3~p"),
    ]
    base = alt.Chart(data_of(cells))
    heat = base.mark_rect().encode(**place, color=colour)
    veil = base.mark_rect(color=VEIL).encode(**place, opacity=alt.Opacity("dropped:Q", scale=None), tooltip=tooltip)
    return alt.layer(heat, veil).properties(height=HEIGHT)

"""Which source tokens every target token looks at: a dot per link, the source in columns, the strongest one ringed."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of
from pages.shared.charts.source_coverage import name, source_axis

STRONGEST = 3  # links per target token
CHOSEN_COLOUR = "#e8590c"
STEP, AROUND = 18, 140  # pixels per target token, and of the axis below


def alignment(
    weights: np.ndarray,
    visible: np.ndarray,
    first: int,
    targets: Sequence[str],
    sources: Sequence[str],
    *,
    palette: str,
    title: str,
) -> alt.LayerChart:
    """weights, visible: [I, J] of the target tokens first, first + 1 ...; targets, sources: their labels."""
    dots = []
    for row, target in enumerate(targets):
        seen = np.flatnonzero(visible[row])
        for rank, at in enumerate(seen[np.argsort(-weights[row, seen], kind="stable")[:STRONGEST]]):
            dots.append(
                {
                    "target": name(first + row, target),
                    "from": f"{first + row} {target}",
                    "source": int(at),
                    "name": name(int(at), sources[at]),
                    "to": f"{int(at)} {sources[at]}",
                    "weight": float(weights[row, at]),
                    "rank": rank + 1,
                }
            )
    top = max((dot["weight"] for dot in dots), default=1.0) or 1.0
    order = [name(first + row, target) for row, target in enumerate(targets)]
    base = alt.Chart(data_of(dots)).encode(
        x=source_axis(sources, title),
        y=alt.Y("target:N", sort=order, title="target", axis=alt.Axis(labelLimit=130, labelOverlap=False)),
        size=alt.Size("weight:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[40, 300])),
    )
    filled = base.mark_circle(opacity=1).encode(
        color=alt.Color("weight:Q", title="weight", scale=alt.Scale(scheme=palette, domain=[0, top])),
        tooltip=[
            alt.Tooltip("from:N", title="target"),
            alt.Tooltip("to:N", title="source"),
            alt.Tooltip("weight:Q", title="weight", format=".4~g"),
            alt.Tooltip("rank:Q", title="rank in its row"),
        ],
    )
    ring = base.mark_point(filled=False, stroke=CHOSEN_COLOUR, strokeWidth=1.5).transform_filter("datum.rank == 1")
    return alt.layer(filled, ring).properties(height=AROUND + STEP * len(order))

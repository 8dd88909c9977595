"""Stacked areas: where the attention of each row of one head goes, along the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import altair as alt
import numpy as np

from pages.shared.charts.mass_budget import COLOURS
from pages.shared.charts.rows import data_of

MOST_POINTS = 200  # above this, neighbouring rows are one point: their mean


def budget_by_position(parts: Sequence[str], shares: np.ndarray, *, height: int = 300) -> alt.Chart:
    """shares [Nq, parts]; rows of NaN see nothing and are left out."""
    count = min(len(shares), MOST_POINTS)
    edges = np.arange(count + 1) * len(shares) // count
    rows = []
    for start, stop in pairwise(edges.tolist()):
        block = shares[start:stop]
        block = block[np.isfinite(block).all(-1)]
        if not len(block):
            continue
        where = f"{start}" if stop == start + 1 else f"{start} to {stop - 1}"
        for order, (part, share) in enumerate(zip(parts, block.mean(0), strict=True)):
            rows.append({"row": int(start), "rows": where, "part": part, "order": order, "share": float(share)})
    there = [part for part in parts if any(row["part"] == part and row["share"] > 0 for row in rows)]
    return (
        alt.Chart(data_of([row for row in rows if row["part"] in there]))
        .mark_area(interpolate="step-after")
        .encode(
            x=alt.X("row:Q", title="query (position)", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(nice=False)),
            y=alt.Y("share:Q", stack="zero", title="share of attention", axis=alt.Axis(format="%", tickCount=4)),
            color=alt.Color(
                "part:N",
                title=None,
                sort=there,
                scale=alt.Scale(domain=there, range=[COLOURS[part] for part in there]),
                legend=alt.Legend(orient="top", columns=3),
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("rows:N", title="query"),
                alt.Tooltip("part:N", title="part"),
                alt.Tooltip("share:Q", title="share", format=".1%"),
            ],
        )
        .properties(height=height)
    )

"""What every source token got over the whole target, as bars in reading order; dashed where all would get the same."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of
from pages.shared.view_state import shorten

COLOUR, BASELINE_COLOUR = "#4c78a8", "#808080"
NAMED = 60  # source tokens up to which each has its label on the axis
LONGEST = 16
HEIGHT = 290


def source_axis(labels: Sequence[str], title: str) -> alt.X:
    """The source in columns: by labels where there are few, else by position."""
    if len(labels) <= NAMED:
        axis = alt.Axis(labelAngle=-90, labelLimit=120, labelOverlap=False, labelFlush=False)
        names = [name(at, label) for at, label in enumerate(labels)]
        return alt.X("name:N", sort=names, scale=alt.Scale(domain=names), title=title, axis=axis)
    return alt.X("source:Q", title=title, scale=alt.Scale(domain=[-0.5, len(labels) - 0.5], nice=False))


def name(position: int, label: str) -> str:
    return f"{position} {shorten(label, LONGEST)}"


def source_coverage(coverage: np.ndarray, labels: Sequence[str], even: float, *, title: str) -> alt.LayerChart:
    """coverage: [J] in rows' worths; labels: one per source token; even: what each would get of an even spread."""
    values = [
        {"source": at, "name": name(at, labels[at]), "whole": f"{at} {labels[at]}", "got": float(value)}
        for at, value in enumerate(coverage)
    ]
    size = {} if len(labels) <= NAMED else {"size": max(1.0, 600 / len(labels))}
    bars = (
        alt.Chart(data_of(values))
        .mark_bar(color=COLOUR, **size)
        .encode(
            x=source_axis(labels, title),
            y=alt.Y("got:Q", title="rows got"),
            tooltip=[
                alt.Tooltip("whole:N", title="source"),
                alt.Tooltip("got:Q", title="got, in rows", format=".4~g"),
            ],
        )
    )
    rule = alt.Chart(data_of([{"even": even}])).mark_rule(color=BASELINE_COLOUR, strokeDash=[4, 3], size=1.5)
    rule = rule.encode(y="even:Q", tooltip=[alt.Tooltip("even:Q", title="spread evenly", format=".4~g")])
    return alt.layer(bars, rule).properties(height=HEIGHT)

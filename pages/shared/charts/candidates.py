"""Candidates for the next token as bars, most probable first; the one that was taken has its own colour and a mark."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of
from pages.shared.view_state import shorten

TAKEN_COLOUR, OTHER_COLOUR = "#e4572e", "#6f7f99"
LONGEST = 18  # characters of a label; longer ones lose their middle and are whole on hover


def candidates(labels: Sequence[str], probabilities: Sequence[float], taken: int | None) -> alt.Chart:
    """labels, probabilities: in order of rank; taken: the rank that was written, None where it is not among them."""
    rows = [
        {
            "rank": rank,
            "label": f"{rank} {shorten(label, LONGEST)}" + (" ◂" if rank == taken else ""),
            "whole": label,
            "probability": float(value),
            "what": "taken" if rank == taken else "other",
        }
        for rank, (label, value) in enumerate(zip(labels, probabilities, strict=True))
    ]
    names = [row["label"] for row in rows]
    return (
        alt.Chart(data_of(rows))
        .mark_bar()
        .encode(
            x=alt.X("probability:Q", title="probability", axis=alt.Axis(format="%", tickCount=4)),
            y=alt.Y("label:N", sort=names, title=None, axis=alt.Axis(labelLimit=170, labelOverlap=False)),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=["taken", "other"], range=[TAKEN_COLOUR, OTHER_COLOUR]),
                legend=None,
            ),
            tooltip=[
                alt.Tooltip("whole:N", title="token"),
                alt.Tooltip("probability:Q", title="probability", format=".4~g"),
            ],
        )
        .properties(height=alt.Step(22))
    )

"""Ranked list: the heads with the largest values of one statistic, as bars."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

PICKED = "picked"  # name of the selection a click makes; its points carry `head`
SELECTED_COLOUR, OTHER_COLOUR, BASELINE_COLOUR = "#e4572e", "#6f7f99", "#808080"


def ranked_heads(
    labels: Sequence[str],
    values: Sequence[float],
    *,
    selected: str,
    title: str,
    uniform: float | None = None,
    notes: Sequence[str] | None = None,
) -> alt.LayerChart:
    """Bars in the order given. `labels` are "layer.head", `values` finite and in the unit `title` names.

    notes: a few words after each name, "" for none. The selected head has its own colour and a mark before its name;
    uniform attention is the dashed grey line.
    """
    rows = rows_of(labels, values, notes or [""] * len(labels), selected)
    names = [row["name"] for row in rows]
    bars = (
        alt.Chart(data_of(rows))
        .mark_bar(cursor="pointer")
        .encode(
            x=alt.X("value:Q", title=title, axis=alt.Axis(tickCount=4)),
            y=alt.Y(
                "name:N", sort=names, title=None, axis=alt.Axis(labelLimit=190, labelOverlap=False, labelFlush=False)
            ),
            color=alt.condition(
                alt.FieldEqualPredicate(field="head", equal=selected),
                alt.value(SELECTED_COLOUR),
                alt.value(OTHER_COLOUR),
            ),
            tooltip=[
                alt.Tooltip("head:N", title="head"),
                alt.Tooltip("value:Q", title=title, format=".4~g"),
                alt.Tooltip("note:N", title="labels"),
            ],
        )
        .add_params(alt.selection_point(name=PICKED, fields=["head"], on="click"))
    )
    rule = alt.Chart(data_of([{"uniform": uniform}] if uniform is not None else []))
    rule = rule.mark_rule(color=BASELINE_COLOUR, strokeDash=[4, 3], size=1.5).encode(
        x="uniform:Q", tooltip=[alt.Tooltip("uniform:Q", title="uniform attention", format=".4~g")]
    )
    return alt.layer(bars, rule).properties(height=alt.Step(18))


def rows_of(labels: Sequence[str], values: Sequence[float], notes: Sequence[str], selected: str) -> list[dict]:
    """One row per bar."""
    return [
        {
            "place": place,
            "head": label,
            "name": (f"▸ {label}" if label == selected else label) + (f"  {note}" if note else ""),
            "value": float(value),
            "note": note or "none",
        }
        for place, (label, value, note) in enumerate(zip(labels, values, notes, strict=True))
    ]

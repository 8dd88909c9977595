"""The heads with the largest values of the chosen statistic; a click chooses one."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import streamlit as st

from pages.shared.address import select
from pages.shared.charts.ranked_heads import PICKED
from pages.shared.charts.ranked_heads import ranked_heads as chart
from pages.shared.panels.figure import figure
from pages.shared.panels.head_values import HeadValues
from pages.shared.view_state import ViewState

KEY = "ranked_heads"
MOST = 12


def ranked_heads(state: ViewState, values: HeadValues, labels: Mapping[tuple[int, int], str] | None = None) -> None:
    """Draws the first heads of the ranking and, where it is not among them, the selected one after them.

    labels: (layer, head) -> labels with their scores, in words."""
    ranked = values.ranked()
    if not ranked:
        st.text(f"No head has a value of {values.words} here.")
        return
    shown = ranked[:MOST]
    place = next((at for at, one in enumerate(ranked) if one[:2] == (state.layer, state.head)), None)
    if place is not None and place >= MOST:
        shown.append(ranked[place])
    where = f"; this head is {place + 1} of {len(ranked)}" if place is not None else ""
    st.text(f"Heads by {values.words}{where}")
    picture = chart(
        [f"{layer}.{head}" for layer, head, _ in shown],
        [value for _, _, value in shown],
        selected=f"{state.layer}.{state.head}",
        title=f"{values.words} ({values.statistic.unit})",
        uniform=values.uniform.get(state.layer),
        notes=[(labels or {}).get((layer, head), "") for layer, head, _ in shown],
    )
    table = {
        "head": [f"{layer}.{head}" for layer, head, _ in ranked],
        values.words: [value for _, _, value in ranked],
        "labels": [(labels or {}).get((layer, head), "") for layer, head, _ in ranked],
    }
    figure(KEY, picture, table=pa.table(table), terms=(values.name,), on_pick=_take, pick=PICKED)


def _take() -> None:
    points = st.session_state[f"{KEY}_chart"].selection.get(PICKED, [])
    layer, _, head = str(points[0].get("head", "")).partition(".") if points else ("", "", "")
    if layer.isdecimal() and head.isdecimal():
        select(layer=int(layer), head=int(head))

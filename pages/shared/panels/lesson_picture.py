"""The picture of a lesson's step, drawn by the panels of the other pages on the view that the step sets."""

from __future__ import annotations

import pyarrow as pa
import streamlit as st

from backend.map_sizes import SIDES
from backend.store import Analysis
from pages.shared.charts.labelled_bars import labelled_bars
from pages.shared.lessons import Step
from pages.shared.lessons.masses import bars_of_segments
from pages.shared.panels.figure import figure
from pages.shared.panels.head_grid import head_grid
from pages.shared.panels.head_map import head_map
from pages.shared.panels.head_row import head_row
from pages.shared.panels.head_sentences import head_sentence
from pages.shared.panels.head_values import head_values
from pages.shared.view_state import ViewState

RESERVE, PRESENTED = 270, 430  # pixels of the browser's height that are not for the map; with the presenter's type
LARGER = 1.4  # type for a lecture hall


def lesson_picture(step: Step, view: ViewState, analysis: Analysis) -> None:
    """Draws what the step shows. `view` is fitted to the analysis."""
    {"map": _map, "heads": _heads, "pair": _pair, "row": _row, "bars": _bars}[step.view.show](step, view, analysis)


def _reserve(view: ViewState) -> int:
    return PRESENTED if view.theme == "projector" else RESERVE


def _map(step: Step, view: ViewState, analysis: Analysis) -> None:
    exact = view.head in analysis.exact_heads(view.layer, view.kind)
    head_map(view, analysis, exact=exact, reserve=_reserve(view))


def _heads(step: Step, view: ViewState, analysis: Analysis) -> None:
    overview, large = st.columns([0.3, 0.7], gap="small")
    values = head_values(analysis, view.kind, view.measure)
    with overview:
        head_grid(view, values)
    with large:
        _map(step, view, analysis)
        st.text(head_sentence(values, view.layer, view.head))


def _pair(step: Step, view: ViewState, analysis: Analysis) -> None:
    second = view.with_more(scale=view.more("scale") or None)
    for place, (layer, head) in zip(st.columns(2), ((view.layer, view.head), step.view.beside), strict=True):
        with place:
            st.text(f"Head {layer}.{head}")
            shown = ViewState(**{**vars(second), "layer": layer, "head": head})
            head_map(shown, analysis, exact=True, reserve=_reserve(view), key=f"headwater_map_{layer}_{head}")


def _row(step: Step, view: ViewState, analysis: Analysis) -> None:
    labels: dict[str, list[str]] = {side: [] for side in SIDES[view.kind]}
    for token in analysis.tokens_list():
        labels[token.side].append(token.label)
    head_row(view, analysis, labels)
    _map(step, view, analysis)


def _bars(step: Step, view: ViewState, analysis: Analysis) -> None:
    chart = step.view.chart
    rows = _bar_rows(analysis, analysis.id, chart)
    picture = labelled_bars(
        [str(row["label"]) for row in rows],
        [row["value"] for row in rows],
        title=chart["title"],
        uniform=[row.get("uniform") for row in rows],
        marked=[bool(row.get("marked")) for row in rows],
        percent=chart.get("percent", False),
        scale=LARGER if view.theme == "projector" else 1.0,
    )
    table = pa.Table.from_pylist([{name: value for name, value in row.items() if name != "marked"} for row in rows])
    figure("lesson_bars", picture, table=table, query=chart.get("sql"))


@st.cache_data(max_entries=64, show_spinner=False)
def _bar_rows(_analysis: Analysis, id: str, chart: dict) -> list[dict]:
    """label and value of every bar, uniform and marked where there is one."""
    if "sql" in chart:
        return _analysis.sql(chart["sql"]).to_pylist()
    return bars_of_segments(_analysis, chart["segments"], chart["rows"], chart.get("head"), chart.get("marked"))

"""The answer of a query: a picture of two of its columns, its rows, and files."""

from __future__ import annotations

import math
from itertools import pairwise

import pyarrow as pa
import streamlit as st

from backend.store.typed_sql import Answer
from pages.shared.address import select
from pages.shared.charts.query_chart import MARKS, query_chart
from pages.shared.panels.figure import figure, files
from pages.shared.view_state import ViewState

DRAWN = 2_000  # rows in the picture
BARS = 80
PLACES = ("layer", "head", "query", "key", "position", "segment", "token_id", "distance")  # rather across than up
NO_PICTURE = "none"
LARGER = 1.4


def sql_answer(state: ViewState, answer: Answer) -> None:
    """Draws it."""
    table = answer.table
    chosen = choose(table, state.more("x"), state.more("y"), state.more("mark"))
    if chosen is not None:
        if chosen[2] != NO_PICTURE:
            _picture(table, *chosen, scale=LARGER if state.theme == "projector" else 1.0)
        _choices(table, *chosen)
    st.text(sentence(answer))
    st.dataframe(table, hide_index=True, height=min(38 * (table.num_rows + 1), 360), key="headwater_sql_rows")
    with st.expander("Files", on_change="rerun", key="headwater_sql_files") as opened:
        if opened.open:
            files("query", False, table)


def sentence(answer: Answer) -> str:
    """How many rows, how long it took, and whether that is all."""
    rows = answer.table.num_rows
    counted = "1 row" if rows == 1 else f"{rows:,} rows"
    cut = " There are more; the limit of the page cuts them off." if answer.cut else ""
    return f"{counted} in {answer.seconds:.1f} s.{cut}"


def choose(table: pa.Table, x: str, y: str, mark: str) -> tuple[str, str, str] | None:
    """Columns across and up and the kind of picture: the choice where it fits, else a guess; None without numbers."""
    numbers = [name for name, kind in zip(table.column_names, table.schema.types, strict=True) if _is_number(kind)]
    if not numbers or table.num_rows < 2 or table.num_columns < 2:
        return None
    if y not in numbers:
        measured = [name for name in numbers if name not in PLACES and name != table.column_names[0]]
        y = next(iter(measured), numbers[-1])
    if x not in table.column_names or x == y:
        x = next(name for name in table.column_names if name != y)
    if mark not in (*MARKS, NO_PICTURE):
        mark = guess(table.column(x), x in numbers)
    return x, y, mark


def guess(across: pa.ChunkedArray, numbers: bool) -> str:
    """Bars for names, a line along numbers that rise, points otherwise."""
    if not numbers:
        return "bars" if len(across) <= BARS else "points"
    values = [value for value in across.to_pylist() if value is not None]
    rises = all(one < two for one, two in pairwise(values))
    return "line" if rises else "points"


def _choices(table: pa.Table, x: str, y: str, mark: str) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for name, label, options, value in (
            ("x", "Across", table.column_names, x),
            ("y", "Up", [c for c, k in zip(table.column_names, table.schema.types, strict=True) if _is_number(k)], y),
            ("mark", "As", [*MARKS, NO_PICTURE], mark),
        ):
            key = f"headwater_sql_{name}"
            st.session_state[key] = value
            st.selectbox(label, options, key=key, on_change=_take, args=(name, key), width=200)


def _take(name: str, key: str) -> None:
    select(**{name: st.session_state[key]})


def _picture(table: pa.Table, x: str, y: str, mark: str, *, scale: float) -> None:
    numbers = _is_number(table.schema.field(x).type)
    pairs = [
        (one, float(two))
        for one, two in zip(table.column(x).to_pylist(), table.column(y).to_pylist(), strict=True)
        if one is not None and two is not None and math.isfinite(two) and not (numbers and not math.isfinite(one))
    ]
    left_out = table.num_rows - len(pairs)
    shown = pairs[:DRAWN]
    rows = "row without a value is" if left_out == 1 else "rows without a value are"
    notes = [f"{left_out:,} {rows} not drawn."] if left_out else []
    notes += [f"The first {DRAWN:,} rows are drawn."] if len(pairs) > DRAWN else []
    if not shown:
        st.text("There is no row with a value in both columns.")
        return
    across, up = zip(*shown, strict=True)
    chart = query_chart(across, up, x=x, y=y, mark=mark, numbers=numbers, scale=scale)
    figure("sql_picture", chart, note=" ".join(notes) or None)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)

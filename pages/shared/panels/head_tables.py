"""The numbers behind the pictures as tables: all heads, the rows and the keys of the chosen head."""

from __future__ import annotations

import streamlit as st

from backend.map_sizes import axis_labels
from backend.store import Analysis
from pages.shared.head_grid import PICTURE
from pages.shared.panels.sink_free_values import said_with_sinks
from pages.shared.save_picture import save_picture
from pages.shared.view_state import ViewState

TABLES = {"All heads": "heads", "Rows of this head": "rows", "Keys of this head": "keys"}


def head_tables(state: ViewState, analysis: Analysis, labels: dict[str, list[str]]) -> None:
    """An expander; a table is read only while it is open."""
    box = st.expander("Table", key="headwater_tables", on_change="rerun")
    if not box.open:
        return
    with box:
        said_with_sinks(state, "the stored tables are what was measured while the model ran.")
        chosen = st.segmented_control("Table", list(TABLES), default="All heads", key="headwater_table")
        name = TABLES.get(chosen, "heads")
        query_labels, key_labels = axis_labels(analysis, state.kind, state.layer, labels)
        if name == "heads":
            table = (
                analysis.heads(kind=state.kind)
                .drop_columns("kind")
                .sort_by([("layer", "ascending"), ("head", "ascending")])
            )
        else:
            read, index, own = (
                (analysis.rows, "query", query_labels) if name == "rows" else (analysis.keys, "key", key_labels)
            )
            table = read(kind=state.kind, layer=state.layer, head=state.head).sort_by(index)
            table = table.drop_columns(["kind", "layer", "head"])
            tokens = [own[position] for position in table.column(index).to_pylist()]
            table = table.add_column(1, "token", [tokens])
        st.dataframe(table, hide_index=True, height=320)
        forms = " · ".join(f"[{form}](data/{state.analysis}/{name}.{form})" for form in ("parquet", "csv", "json"))
        st.caption(f"The whole table {name} as a file: {forms}")  # ids are letters, digits, '-' and '_'
        if name == "heads":
            st.text("All heads as they are arranged above, as one picture")
            save_picture(PICTURE, "headwater_heads")

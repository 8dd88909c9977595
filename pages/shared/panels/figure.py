"""A picture with what belongs to it: its sentence, and below, on demand, its numbers, their meaning, and files.

    figure("sinks_budget", chart, sentence="...", table=table, terms=("sink_mass",))

Nothing below the picture is computed or sent before it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import streamlit as st

from backend.table_files import MEDIA, WRITERS
from pages.shared.charts.spec import spec_of
from pages.shared.panels.terms import definitions
from pages.shared.save_picture import save_picture

KEY = re.compile(r"[a-z][a-z0-9_]*")
TABLE, DEFINITION, EXPORT, SQL = "Table", "Definition", "Export", "SQL"


def figure(
    key: str,
    chart: Any | None,
    *,
    sentence: str | None = None,
    table: pa.Table | None = None,
    terms: Sequence[str] = (),
    note: str | None = None,
    query: str | None = None,
    on_pick: Callable[[], None] | None = None,
    pick: str | None = None,
    offered: bool = False,
    own_size: bool = False,
) -> None:
    """Draws one figure.

    key: small letters, digits and underscores, once per page; also the name of saved files. chart: of
    pages/shared/charts; None = the caller draws the picture. sentence: what the picture shows; note: what was not
    measured; both plain text. terms: names of statistics or terms (backend/terms). query: the SELECT that gives the
    table. on_pick: called after a click on the selection named `pick`; the click is in
    st.session_state[f"{key}_chart"].selection[pick]. offered: a picture that the caller draws can be saved by this key.
    own_size: the chart keeps its width instead of taking the page's.
    """
    if KEY.fullmatch(key) is None:
        raise ValueError(f"key: expected small letters, digits and underscores, got {key!r}.")
    with st.container(key=key, gap="small"):
        more = {"on_select": on_pick, "selection_mode": pick} if on_pick is not None else {}
        more |= {"width": "content"} if own_size else {}
        if chart is not None:
            st.vega_lite_chart(spec=spec_of(chart), key=f"{key}_chart", alt=sentence, **more)
        for text in (sentence, note):
            if text:
                st.text(text)
        below(key, offered or chart is not None, table, tuple(terms), query)


@st.fragment
def below(key: str, has_picture: bool, table: pa.Table | None, terms: tuple[str, ...], query: str | None) -> None:
    """What is shown on demand."""
    offered = [TABLE] if table is not None else []
    offered += [DEFINITION] if terms else []
    offered += [EXPORT] if has_picture or table is not None else []
    offered += [SQL] if query else []
    if not offered:
        return
    label = f"What belongs to the picture {key.replace('_', ' ')}"
    chosen = st.pills(label, offered, key=f"{key}_below", label_visibility="collapsed")
    if chosen == TABLE:
        st.dataframe(table, hide_index=True, height=min(38 * (table.num_rows + 1), 320))
    elif chosen == DEFINITION:
        definitions(terms)
    elif chosen == EXPORT:
        files(key, has_picture, table)
    elif chosen == SQL:
        st.text(query)


def files(key: str, has_picture: bool, table: pa.Table | None) -> None:
    """The picture and its table as files."""
    if has_picture:
        save_picture(key, key)
    if table is not None:
        with st.container(horizontal=True):
            for form, write in WRITERS.items():
                st.download_button(
                    f"Table as {form.upper() if form != 'parquet' else 'Parquet'}",
                    write(table),
                    file_name=f"{key}.{form}",
                    mime=MEDIA[form],
                    key=f"{key}_{form}",
                    on_click="ignore",
                )

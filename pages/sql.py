"""SQL: one SELECT over the tables of the open analysis or study, with its schema, examples, a picture and files."""

from __future__ import annotations

import streamlit as st

from backend.errors import Damaged, HeadwaterError, NewerFile, NotFound
from backend.store import Analysis, Study, typed_sql
from backend.store.typed_sql import Answer, Column
from pages.shared.address import select
from pages.shared.frame import frame, opened
from pages.shared.lessons.text import as_text
from pages.shared.opened import open_study
from pages.shared.panels.readable import readable
from pages.shared.panels.sql_answer import sql_answer
from pages.shared.panels.sql_examples import EXAMPLES, Example, study_examples
from pages.shared.view_state import LONGEST_EXTRA, ViewState

TEXT, EXAMPLE = "headwater_sql_text", "headwater_sql_example"
SHOWN = "headwater_sql_shown"  # the query of the address that the text field shows
FORGET = {"x": None, "y": None, "mark": None}


def source(state: ViewState) -> Analysis | Study:
    """What is asked: the study of the address where there is one, else the analysis."""
    if state.study is not None:
        try:
            return open_study(state.study)
        except (NotFound, Damaged, NewerFile) as error:
            st.text(str(error))
    return opened(state)


@st.cache_data(max_entries=32, show_spinner="The query runs.")
def answered(_stored: Analysis | Study, id: str, text: str) -> Answer:
    """Asked once per query; the file never changes."""
    return typed_sql.answer(_stored, text)


@st.cache_data(max_entries=64, show_spinner=False)
def schema_of(_stored: Analysis | Study, id: str) -> dict[str, list[Column]]:
    """table -> columns."""
    return typed_sql.tables(_stored)


def run() -> None:
    """Puts the query into the address; a callback."""
    select(sql=st.session_state[TEXT].strip() or None, **FORGET)


def take_example(examples: dict[str, Example], state: ViewState) -> None:
    """Shows and runs an example; a callback."""
    chosen = examples.get(st.session_state[EXAMPLE])
    if chosen is not None:
        st.session_state[TEXT] = chosen.filled(state)
        run()


def editor(state: ViewState, examples: tuple[Example, ...]) -> str:
    """The field, the examples and the button; returns the query of the address."""
    by_label = {example.label: example for example in examples}
    text = state.more("sql") or examples[0].filled(state)
    if st.session_state.get(SHOWN) != text:  # a link, or a step back
        st.session_state[SHOWN] = st.session_state[TEXT] = text
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            "Examples",
            list(by_label),
            index=None,
            key=EXAMPLE,
            placeholder="The numbers of a page, asked directly",
            on_change=take_example,
            args=(by_label, state),
        )
        st.button("Run", type="primary", key="headwater_sql_run", on_click=run)
    st.text_area(
        "One SELECT", key=TEXT, height=122, max_chars=LONGEST_EXTRA, label_visibility="collapsed", on_change=run
    )
    return text


def schema(tables: dict[str, list[Column]]) -> None:
    """The tables and their columns."""
    st.text("Tables")
    for name, columns in tables.items():
        with st.expander(f"{as_text(name)} ({len(columns)} columns)"):
            st.text("\n".join(f"{column.name}  {column.type.lower()}" for column in columns))


state = frame("sql", selectors=("kind", "layer", "head"))
with readable():
    stored = source(state)
    tables = schema_of(stored, stored.id)
    what = "study" if isinstance(stored, Study) else "analysis"
    st.text(
        f"What do the tables of this {what} say? One SELECT at a time is answered (DuckDB). It reads this {what} and "
        "nothing else, and changes nothing."
    )
    asked, beside = st.columns([0.74, 0.26], gap="medium")
    with beside:
        schema(tables)
    with asked:
        text = editor(state, study_examples(list(tables)) if what == "study" else EXAMPLES)
        try:
            result = answered(stored, stored.id, text)
        except HeadwaterError as error:
            st.text(str(error))
        else:
            sql_answer(state, result)

"""The parts of the prompt as cards in their order, with what each gets; one can be marked as the right one."""

from __future__ import annotations

import numpy as np
import streamlit as st

from backend.basins.slots import Slots
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.panels.basin_data import BasinView
from pages.shared.panels.basin_sentences import duplicates, percent

KEY = "headwater_basin_gold"
IN_ROW, LETTERS, MOST = 5, 110, 40


def texts_of(analysis: Analysis, slots: Slots) -> list[str]:
    """What each part says."""
    tokens = analysis.tokens_list()
    return ["".join(token.text for token in tokens[part.start : part.stop]) for part in slots.parts]


def basin_cards(view: BasinView, slots: Slots, texts: list[str], values: np.ndarray) -> None:
    """Draws the cards."""
    _mark(view, slots)
    order = np.argsort(-np.nan_to_num(values, nan=-1.0), kind="stable").tolist()
    for first in range(0, min(len(slots), MOST), IN_ROW):
        for place, column in zip(range(first, min(first + IN_ROW, len(slots), MOST)), st.columns(IN_ROW), strict=False):
            with column, st.container(border=True, height="stretch", gap="small"):
                star = "★ " if place == view.gold else ""
                st.text(f"{star}{slots.names[place]}", wrap=False)
                text = " ".join(texts[place].split())
                st.text(text if len(text) <= LETTERS else f"{text[:LETTERS]}…")
                value = values[place]
                rank = order.index(place) + 1
                st.text(f"{percent(value)} · rank {rank}" if np.isfinite(value) else "out of reach")
    if len(slots) > MOST:
        st.text(f"{len(slots) - MOST} more parts are in the table above.")
    twins = duplicates(texts)
    if twins:
        st.text(twins)


def _mark(view: BasinView, slots: Slots) -> None:
    st.session_state[KEY] = view.gold
    st.selectbox(
        "The part that holds the answer, if you know it",
        list(range(len(slots))),
        index=None,
        format_func=lambda place: slots.names[place],
        key=KEY,
        placeholder="not marked",
        on_change=_take_gold,
    )


def _take_gold() -> None:
    chosen = st.session_state[KEY]
    select(gold=None if chosen is None else str(chosen + 1))

"""What the studies of the page of basins share: the prompt, the reference answer, views of their results."""

from __future__ import annotations

from typing import Any

import streamlit as st

from backend.basins.orders import part_word, parts_of, prompt_from
from backend.errors import HeadwaterError
from pages.shared.view_state import ViewState

ANSWER = "headwater_basin_answer"
START_THERE = "It is started on the page Basins, for the prompt that is shown there."
VIEWS = {
    "question": "the question, without sinks",
    "question_all": "the question",
    "last": "the last token, without sinks",
    "last_all": "the last token",
}


def answer_field() -> str | None:
    """A reference answer; None where it is left empty."""
    text = st.text_input(
        "Reference answer (left empty, only attention is reported)",
        key=ANSWER,
        max_chars=500,
        placeholder="what a right answer would say",
    )
    return (text or "").strip() or None


def movable_prompt(info: dict) -> dict | None:
    """The prompt of the open analysis where its parts can change places; else says why not."""
    values = dict(info.get("prompt") or {})
    try:
        prompt_from(values)
    except HeadwaterError as error:
        st.text(str(error))
        return None
    return values


def checked(make: Any, **values: Any) -> Any | None:
    """Parameters of a study; None where they are refused, and why."""
    try:
        return make(**values)
    except HeadwaterError as error:
        st.text(str(error))
        return None


def view_name(state: ViewState) -> str:
    """Which of VIEWS the address chooses."""
    looking = "last" if state.more("look") in ("last", "first") else "question"
    return looking if state.without_sinks(True) else f"{looking}_all"


def part_names(parameters: dict) -> list[str]:
    """Names of the parts in the order given."""
    prompt = prompt_from(parameters["prompt"])
    return [f"{part_word(prompt)} {number}" for number in range(1, len(parts_of(prompt)) + 1)]


def gold_of(state: ViewState, count: int) -> int | None:
    """The part that the address marks, from 0."""
    text = state.more("gold")
    return int(text) - 1 if text.isdecimal() and len(text) < 6 and 1 <= int(text) <= count else None


def column(rows: list[dict], name: str) -> list[float]:
    """One column with NaN for null."""
    return [float("nan") if row[name] is None else float(row[name]) for row in rows]

"""Presenting a lesson: full screen, keys and clicker, a timer, a spotlight, and a second window with notes.

The browser's part knows the keys and the clock; which step is shown is the address, as everywhere. The window with the
notes follows the one that presents, and its keys move it, through a channel that both pages of one browser share.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent
ROLES = ("1", "notes")  # values of `present` in the address: the picture for all, the notes for one
MOVES = ("forward", "back", "leave")
KEY = "headwater_presenter"
_presenter = st.components.v2.component(
    "headwater_presenter",
    css=(HERE / "bar.css").read_text("utf-8"),
    js=(HERE / "presenter.js").read_text("utf-8"),
)


def presenter(
    *,
    role: str,
    lesson: str,
    step: int,
    steps: int,
    shown: int,
    minutes: int,
    spot: dict[str, list[int]],
    black: bool,
    on_move: Callable[[str], None],
    on_follow: Callable[[int, int], None],
) -> None:
    """Draws the bar and listens. spot: rows and columns of the map on which the spotlight begins, or {}.
    black: whether the words are black, as the white of a projector needs.

    on_move hears one of MOVES, on_follow the step and the last shown answer elsewhere."""

    def move() -> None:
        said = st.session_state[KEY].get("move")
        if said in MOVES:
            on_move(said)

    def follow() -> None:
        said = st.session_state[KEY].get("follow")
        if isinstance(said, dict) and said.get("lesson") == lesson:
            values = said.get("step"), said.get("shown")
            if all(type(value) is int and 0 <= value <= steps for value in values) and values[0] >= 1:
                on_follow(*values)

    st.html(HERE / "page.css")
    if black:
        st.html(HERE / "black.css")
    _presenter(
        key=KEY,
        data={
            "role": "notes" if role == "notes" else "show",
            "lesson": lesson,
            "step": step,
            "steps": steps,
            "shown": shown,
            "minutes": minutes,
            "spot": spot or None,
        },
        on_move_change=move,
        on_follow_change=follow,
    )

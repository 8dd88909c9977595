"""Commits a text area when the person pauses, so that the estimate under it follows the typing.

Streamlit sends a text area when it loses focus or at Ctrl+Enter; this presses Ctrl+Enter after a pause.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_typing_pause = st.components.v2.component(
    "headwater_typing_pause",
    js=(Path(__file__).parent / "typing_pause.js").read_text("utf-8"),
)


def typing_pause(container_key: str, *, milliseconds: int = 600) -> None:
    """Watches the text areas inside the container of that key."""
    _typing_pause(
        key=f"headwater_typing_pause_{container_key}",
        data={"container": container_key, "milliseconds": milliseconds},
        width=1,
        height=1,
    )

"""Three hints for whoever opens a page for the first time; put away, they stay away in this browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent
_hints = st.components.v2.component(
    "headwater_hints", css=(HERE / "hints.css").read_text("utf-8"), js=(HERE / "hints.js").read_text("utf-8")
)


def hints(page: str, sentences: Sequence[str]) -> None:
    """Draws the hints of a page in the column on the left, one at a time."""
    with st.sidebar:
        _hints(key=f"headwater_hints_{page}", data={"page": page, "hints": list(sentences)}, height="content")

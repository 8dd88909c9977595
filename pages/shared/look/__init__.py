"""How the pages look: the frame's own style, and the theme that the address asks for."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent
# theme in the address -> Streamlit's name for it; None: whatever the browser or the settings menu says
NAMES = {"auto": None, "light": "Light", "dark": "Dark", "projector": "Light"}

_theme = st.components.v2.component("headwater_theme", js=(HERE / "theme.js").read_text("utf-8"))


def apply_look(theme: str) -> None:
    """Styles the page; a projector gets dark text on white, large, with heavier type."""
    st.html(HERE / "frame.css")
    if theme == "projector":
        st.html(HERE / "projector.css")
    with st.container(key="headwater_theme"):
        _theme(key="headwater_theme_switch", data={"name": NAMES[theme]}, height=1)

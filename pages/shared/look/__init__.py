"""How the pages look and answer to keys: the frame's own style, the theme of the address, the list of keys."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import streamlit as st

from pages.shared.look.keys import KEYS
from pages.shared.scripts import by_reference

HERE = Path(__file__).parent
# theme in the address -> Streamlit's name for it; None: whatever the browser or the settings menu says
NAMES = {"auto": None, "light": "Light", "dark": "Dark", "projector": "Light"}

_theme = st.components.v2.component(
    "headwater_theme",
    css=(HERE / "keys.css").read_text("utf-8"),
    js=by_reference("look", "\n".join((HERE / name).read_text("utf-8") for name in ("keys.js", "theme.js"))),
)


def apply_look(theme: str) -> None:
    """Styles the page; a projector gets dark text on white, large, with heavier type."""
    st.html(HERE / "frame.css")
    if theme == "projector":
        st.html(HERE / "projector.css")
    with st.container(key="headwater_theme"):
        _theme(
            key="headwater_theme_switch", data={"name": NAMES[theme], "keys": [asdict(key) for key in KEYS]}, height=1
        )

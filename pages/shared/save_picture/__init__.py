"""Two buttons that save a chart as it is on the screen: SVG with real text, or PNG at twice its size.

The chart is drawn in the browser, so it is saved there: nothing is sent anywhere.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent
_save_picture = st.components.v2.component(
    "headwater_save_picture",
    html='<button type="button" data-form="svg">SVG</button> <button type="button" data-form="png">PNG</button>'
    '<span role="status"></span>',
    css=(HERE / "save_picture.css").read_text("utf-8"),
    js=(HERE / "save_picture.js").read_text("utf-8"),
)


def save_picture(container_key: str, name: str) -> None:
    """Saves the first chart inside the container of that key, under the file name `name` plus its ending."""
    _save_picture(key=f"headwater_save_picture_{container_key}", data={"container": container_key, "name": name})

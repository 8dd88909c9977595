"""Two buttons that save a picture as it is on the screen: SVG with real text, or PNG at twice its size.

The picture is drawn in the browser, so it is saved there: nothing is sent anywhere. It is a chart, or what a component
offers under a name: its script has OFFER in front and calls `offerPicture(name, draw)`.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent
OFFER = HERE / "offer.js"
_save_picture = st.components.v2.component(
    "headwater_save_picture",
    html='<button type="button" data-form="svg">SVG</button> <button type="button" data-form="png">PNG</button>'
    '<span role="status"></span>',
    css=(HERE / "save_picture.css").read_text("utf-8"),
    js="\n".join(path.read_text("utf-8") for path in (OFFER, HERE / "save_picture.js")),
)


def save_picture(container_key: str, name: str) -> None:
    """Saves the first chart inside the container of that key, else the picture that is offered under the key; the file
    is named `name` plus its ending."""
    _save_picture(key=f"headwater_save_picture_{container_key}", data={"container": container_key, "name": name})

"""What is shown, by whom it was made, and the button that copies the link. A title is text, never markup."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import streamlit as st

from pages.shared.scripts import by_reference

HERE = Path(__file__).parent
_header = st.components.v2.component(
    "headwater_header",
    css=(HERE / "header.css").read_text("utf-8"),
    js=by_reference("header", (HERE / "header.js").read_text("utf-8")),
)


def header(*, title: str, model: str, numbers: str, query: dict[str, str]) -> None:
    """Draws the facts of what is shown and the button that copies the address with `query`.

    The browser knows the outside scheme, host, port and prefix; only the query comes from here."""
    _header(
        key="headwater_header", data={"title": title, "model": model, "numbers": numbers, "query": urlencode(query)}
    )

"""The first page: what to read, what is being read, and what has been read. The link holds only what was searched."""

from __future__ import annotations

import streamlit as st

from pages.shared.frame import plain_frame
from pages.shared.panels.library_list import library_list
from pages.shared.panels.run_cards import run_cards
from pages.shared.panels.run_form import run_form
from pages.shared.panels.sign_in import sign_in


def home() -> None:
    """Draws the page."""
    plain_frame("home")
    sign_in()
    left, right = st.columns(2, gap="large")
    with left:
        run_form()
        run_cards()
    with right:
        library_list()

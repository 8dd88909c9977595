"""The chosen heads as one HTML page that opens without a network, its size said before it is made."""

from __future__ import annotations

import streamlit as st

from backend.errors import HeadwaterError
from backend.map_sizes import map_sizes
from backend.store import Analysis
from pages.shared.exports.analysis_html import LARGEST, analysis_html, size_of
from pages.shared.opened import owner, shelf
from pages.shared.view_state import ViewState

CHOSEN, MADE, TROUBLE = "headwater_page_heads", "headwater_page_made", "headwater_page_trouble"
MOST = 24  # heads


def head_page(state: ViewState, analysis: Analysis) -> None:
    """Draws the choice of heads, the size, and the button."""
    sizes = map_sizes(analysis)[state.kind]
    names = [f"{layer}.{head}" for layer in sizes for head in analysis.exact_heads(layer, state.kind)]
    current = f"{state.layer}.{state.head}"
    if not names:
        st.text("No exact map was kept in this analysis, so there is none for a page.")
        return
    chosen = st.multiselect(
        "Heads of the page",
        names,
        default=[current] if current in names else names[:1],
        max_selections=MOST,
        key=f"{CHOSEN}_{analysis.id}_{state.kind}",
    )
    heads = [tuple(map(int, name.split("."))) for name in chosen]
    size = size_of(sizes, heads, len(analysis.tokens_list()))
    st.text(
        f"One HTML file of about {size / 1e6:.1f} MB (at most {LARGEST // 1_000_000}): it opens without a network, "
        "with zoom and hover, the chosen heads exact and all heads small. Whoever gets it can read the prompt."
    )
    key = f"{MADE}_{analysis.id}_{state.kind}_{'_'.join(chosen)}"
    if (trouble := st.session_state.pop(TROUBLE, None)) is not None:
        st.text(trouble)
    if key in st.session_state:
        st.download_button(
            "Save the page", st.session_state[key], "headwater.html", "text/html", key=f"{MADE}_save", on_click="ignore"
        )
    else:
        ready = bool(heads) and size <= LARGEST
        st.button(
            "Make the page",
            key=f"{MADE}_make",
            disabled=not ready,
            on_click=_make,
            args=(analysis, state.kind, heads, key),
        )


def _make(analysis: Analysis, kind: str, heads: list[tuple[int, int]], key: str) -> None:
    """Keeps the last one made in this tab; a callback."""
    for old in [name for name in st.session_state if str(name).startswith(f"{MADE}_{analysis.id}")]:
        del st.session_state[old]
    try:
        title = shelf().entry(analysis.id, owner()).title
        st.session_state[key] = analysis_html(analysis, kind, heads, title=title)
    except HeadwaterError as error:
        st.session_state[TROUBLE] = str(error)

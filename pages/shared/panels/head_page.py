"""The chosen heads as one HTML page that opens without a network, exact or pooled, its size said before it is made."""

from __future__ import annotations

import streamlit as st

from backend.errors import HeadwaterError
from backend.map_sizes import MapSize, map_sizes
from backend.store import Analysis
from pages.shared.exports.analysis_html import LARGEST, POOLED, analysis_html, size_of, too_large
from pages.shared.opened import owner, shelf
from pages.shared.view_state import ViewState

CHOSEN, MADE, TROUBLE = "headwater_page_heads", "headwater_page_made", "headwater_page_trouble"
MOST = 24  # heads
HELD = "headwater_page_held"
EXACT, BLOCKS = "exact", f"pooled to {POOLED} × {POOLED} blocks"


def head_page(state: ViewState, analysis: Analysis) -> None:
    """Draws the choice of heads, the size, and the button."""
    sizes, n_tokens = map_sizes(analysis)[state.kind], len(analysis.tokens_list())
    exact = [f"{layer}.{head}" for layer in sizes for head in analysis.exact_heads(layer, state.kind)]
    current = f"{state.layer}.{state.head}"
    pooled = _pooled(sizes, exact, n_tokens)
    names = [f"{layer}.{head}" for layer, size in sizes.items() for head in range(size.heads)] if pooled else exact
    chosen = st.multiselect(
        "Heads of the page",
        names,
        default=[current] if current in names else names[:1],
        max_selections=MOST,
        key=f"{CHOSEN}_{analysis.id}_{state.kind}_{pooled}",
    )
    heads = [tuple(map(int, name.split("."))) for name in chosen]
    size = size_of(sizes, heads, n_tokens, pooled=pooled)
    how = f"as {POOLED} × {POOLED} blocks at most" if pooled else "exact"
    st.text(
        too_large(size, pooled=pooled)
        or f"One HTML file of about {size / 1e6:.1f} MB (at most {LARGEST // 1_000_000}): it opens without a network, "
        f"with zoom and hover, the chosen heads {how} and all heads small. Whoever gets it can read the prompt."
    )
    key = f"{MADE}_{analysis.id}_{state.kind}_{pooled}_{'_'.join(chosen)}"
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
            args=(analysis, state.kind, heads, pooled, key),
        )


def _pooled(sizes: dict[int, MapSize], exact: list[str], n_tokens: int) -> bool:
    """Whether the maps of the page are pooled: asked where both can be done and differ; exact where that fits."""
    one = [(int(name.partition(".")[0]), 0) for name in exact[:1]]
    if one and max(max(size.queries, size.keys) for size in sizes.values()) <= POOLED:
        return False
    fits = bool(one) and size_of(sizes, one, n_tokens) <= LARGEST
    st.session_state.setdefault(HELD, EXACT if fits else BLOCKS)
    return st.segmented_control("Maps of the page", [EXACT, BLOCKS], required=True, key=HELD) == BLOCKS


def _make(analysis: Analysis, kind: str, heads: list[tuple[int, int]], pooled: bool, key: str) -> None:
    """Keeps the last one made in this tab; a callback."""
    for old in [name for name in st.session_state if str(name).startswith(f"{MADE}_{analysis.id}")]:
        del st.session_state[old]
    try:
        title = shelf().entry(analysis.id, owner()).title
        st.session_state[key] = analysis_html(analysis, kind, heads, title=title, pooled=pooled)
    except HeadwaterError as error:
        st.session_state[TROUBLE] = str(error)

"""Opens what an address names: the shelf of this process, the person's cookie, an analysis and its outline."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from backend import statistics
from backend.errors import Damaged, NewerFile, NotFound
from backend.settings import data_folder
from backend.shelf import OWNER_COOKIE, Shelf
from backend.store import Analysis
from pages.shared.view_state import Outline, Site, ViewState

SIDES = {  # kind -> the sides of the token table that its queries and keys are
    "self": ("self", "self"),
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}


def shelf() -> Shelf:
    """The shelf of this process."""
    return _shelf(data_folder())


@st.cache_resource(show_spinner=False)
def _shelf(folder: Path) -> Shelf:
    return Shelf(folder)


def owner() -> str | None:
    """The random name of this browser, which owns what it ran; None before the cookie is set."""
    return st.context.cookies.get(OWNER_COOKIE)


def open_for(state: ViewState) -> tuple[Analysis | None, list[str]]:
    """The analysis of an address, else a bundled one, else None; and what the person should know about the choice."""
    notices: list[str] = []
    if state.analysis is not None:
        try:
            return shelf().open(state.analysis, owner()).analysis, []
        except (NotFound, Damaged, NewerFile) as error:
            notices.append(str(error))
    bundled = shelf().bundled.list()
    if not bundled:
        return None, notices
    notices.append("A bundled analysis is shown; choose another in the list on the left.")
    return shelf().bundled.open(bundled[0].id), notices


def outline(analysis: Analysis) -> Outline:
    """What of the analysis an address can name."""
    lengths: dict[str, int] = {}
    for token in analysis.tokens_list():
        lengths[token.side] = lengths.get(token.side, 0) + 1
    sites: dict[str, dict[int, Site]] = {}
    for layer in analysis.layers():
        if layer.attention != "softmax":
            continue
        queries, keys = SIDES[layer.kind]
        sites.setdefault(layer.kind, {})[layer.layer] = Site(layer.heads, lengths[queries], lengths[keys])
    return Outline(sites=sites, measures=frozenset(statistics.all()))

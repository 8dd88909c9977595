"""The frame of every page: configuration, menu, header, selectors. Returns what the page shows.

A page begins with

    state = frame("heads")
    analysis = opened(state)

and changes the view with `select(layer=3, head=5)` in a callback. The menu is the folder pages/: a new file is a new
entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import streamlit as st

from backend.lasting import leave_out_modules
from backend.shelf import Opened
from backend.store import Analysis
from pages.shared.address import read, write
from pages.shared.header import header
from pages.shared.look import apply_look
from pages.shared.menu import PAGES, menu
from pages.shared.opened import kept_by_study, open_for, outline, owner, shelf
from pages.shared.panels.badge import badge
from pages.shared.panels.library_row import forget_told
from pages.shared.panels.selectors import ALL, choice_of_analysis
from pages.shared.panels.selectors import selectors as draw_selectors
from pages.shared.view_state import Outline, ViewState, fit, fit_part, to_query, without_defaults

ANALYSIS = "headwater_analysis"  # the opened analysis of this run
Fitted = Callable[[ViewState], tuple[ViewState, list[str]]]
Showing = Callable[[ViewState], tuple[Opened | None, dict[str, str]]]
EMBEDDED = PAGES / "shared" / "look" / "embed.css"
OFFERED = 100  # analyses in the list on the left


def frame(
    page: str,
    *,
    selectors: tuple[str, ...] = ALL,
    parts: Mapping[str, str] | None = None,
    prefers: Callable[[Analysis], bool] | None = None,
    own: Callable[[ViewState, Analysis], tuple[ViewState, list[str]]] | None = None,
    whole: bool = True,
) -> ViewState:
    """Draws the frame of a page that shows one analysis; returns the fitted view, ends the run where there is none.

    parts: name -> title of those of which the page shows one at a time, the default first. prefers: which of the
    bundled analyses is shown where the address names none. own: fits the parameters that the page adds.
    whole: False where the page draws more selectors itself, once its picture is there (`more_selectors`)."""
    _configure(page)
    forget_told()
    wanted, notices = read(page)
    found, more = open_for(wanted, prefers)
    notices += more
    if found is None:
        _head(page, wanted, None, {})
        _say(notices)
        st.text("There is no analysis yet. Run one on the first page (Headwater, top left).")
        st.stop()
    analysis = found.analysis
    has = outline(analysis)
    state, more = fit(replace(wanted, analysis=analysis.id), has)
    state, of_parts = fit_part(state, parts)
    if own is not None:
        state, of_own = own(state, analysis)
        of_parts = of_parts + of_own
    chosen = wanted.analysis == analysis.id or kept_by_study(wanted, analysis.id)
    query = _address(state, has, chosen=chosen)
    _head(page, state, found, {"analysis": analysis.id, **query})
    _say(notices + more + of_parts)
    choice_of_analysis(state, shelf().entries(owner())[:OFFERED], found.entry)
    draw_selectors(state, has, (*selectors, "look") if whole else selectors)
    write(page, replace(state, analysis=query.get("analysis")), query)
    st.session_state[ANALYSIS] = analysis
    return state


def plain_frame(page: str, fitted: Fitted | None = None, showing: Showing | None = None) -> ViewState:
    """The frame of a page that shows no analysis; the menu still leads to the one in the address.

    fitted: gives the nearest view that the page has, and what had to change. showing: the analysis that a page which
    chooses it itself shows for a view, and the parameters under which other pages show the same."""
    _configure(page)
    if page != "home":
        forget_told()
    state, notices = read(page)
    if fitted is not None:
        state, more = fitted(state)
        notices = notices + more
    found, elsewhere = showing(state) if showing is not None else (None, None)
    _head(page, state, found, to_query(state), elsewhere)
    _say(notices)
    write(page, state, to_query(state))
    return state


def more_selectors(state: ViewState, wanted: tuple[str, ...]) -> None:
    """Selectors that a page draws after its picture, which would come later beside them; the look is the last."""
    draw_selectors(state, outline(opened(state)), (*wanted, "look"))


def opened(state: ViewState) -> Analysis:
    """The analysis that `frame` opened for this view."""
    analysis = st.session_state[ANALYSIS]
    return analysis if analysis.id == state.analysis else shelf().open(state.analysis, owner()).analysis


def _configure(page: str) -> None:
    leave_out_modules()
    title = "Headwater" if page == "home" else f"{dict(menu()).get(page, page)} · Headwater"
    about = "Headwater shows where attention flows in a transformer, exactly, at any prompt length."
    st.set_page_config(page_title=title, layout="wide", menu_items={"About": about})


def _head(
    page: str, state: ViewState, found: Opened | None, query: dict[str, str], elsewhere: dict[str, str] | None = None
) -> None:
    apply_look(state.theme)
    if st.context.is_embedded:
        st.html(EMBEDDED)
    own = {name: value for name, value in query.items() if name not in dict(state.extra)}
    kept = own if elsewhere is None else elsewhere
    with st.container(key="headwater_frame", gap=None):
        with st.container(key="headwater_menu", horizontal=True, vertical_alignment="center", gap=None):
            _menu_entry("home", "app.py", "Headwater", page, kept)
            for name, title in menu():
                _menu_entry(name, f"pages/{name}.py", title, page, kept)
        if found is not None:
            _facts(found, query)


def _facts(found: Opened, query: dict[str, str]) -> None:
    """Which analysis is shown, what made its numbers, and whether they were checked."""
    info = found.analysis.info
    with st.container(key="headwater_facts", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
        header(
            title=found.entry.title,
            model=str(info.get("model", "")),
            numbers=f"{info['n_tokens']:,} tokens · {info.get('implementation', '')}",
            query=query,
        )
        badge(info)


def _menu_entry(name: str, path: str, title: str, page: str, query: dict[str, str]) -> None:
    key = "headwater_current" if name == page else f"headwater_{name}"
    with st.container(key=key, width="content"):
        st.page_link(path, label=title, query_params=query or None)


def _address(state: ViewState, has: Outline, *, chosen: bool) -> dict[str, str]:
    """The shortest address of a view. A bundled analysis that stands in for none is named once something is chosen."""
    query = to_query(without_defaults(state, has))
    return query if chosen or set(query) != {"analysis"} else {}


def _say(notices: list[str]) -> None:
    """One notice, whatever had to change. Plain text: it quotes the address."""
    if notices:
        with st.container(border=True, key="headwater_notice"):
            st.text(" ".join(notices))

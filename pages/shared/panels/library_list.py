"""What has been read: the stored analyses with the bundled ones; search, sort, pin, tags, delete with undo, storage."""

from __future__ import annotations

import streamlit as st

from backend.store import Entry, Library
from backend.store.entries import chosen
from backend.store.quota import Evicted, take_told
from pages.shared.opened import owner, shelf
from pages.shared.panels.import_form import import_form
from pages.shared.panels.library_row import DELETED, EVICTED, TROUBLE, library_row, restore

PER_PAGE = 8
NAMED = 3  # evicted analyses that are named
SORTS = {  # name -> (field, largest first)
    "Newest": ("created_at", True),
    "Title": ("title", False),
    "Model": ("model", False),
    "Tokens": ("n_tokens", True),
    "Size": ("bytes", True),
}


def library_list() -> None:
    """Draws the list."""
    entries = shelf().entries(owner())
    st.text("Recent and pinned analyses")
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        wanted = st.text_input(
            "Search",
            key="headwater_search",
            placeholder="title, model, tag, prompt",
            live=True,
            persist_state="session",
        )
        order = st.selectbox("Sort", list(SORTS), key="headwater_sort", width=120, persist_state="session")
    found = arrange(entries, wanted or "", order)
    _undo()
    _evicted()
    if not found:
        st.text("Nothing is stored yet: run a prompt." if not entries else "No analysis matches the search.")
        return
    pages = -(-len(found) // PER_PAGE)
    page = min(st.session_state.get("headwater_page", 1), pages)
    for entry in found[(page - 1) * PER_PAGE : page * PER_PAGE]:
        library_row(entry, bundled=entry.id in shelf().bundled_ids)
    if pages > 1:
        st.pagination(pages, key="headwater_page", max_visible_pages=7)
    import_form()
    st.caption(stored([entry for entry in entries if entry.id not in shelf().bundled_ids], shelf().own))


def stored(own: list[Entry], library: Library) -> str:
    """How many entries this person sees, and what the whole library takes."""
    used, quota = library.storage_used(), library.quota_bytes
    text = f"{len(own)} stored. Storage used: {amount(used)}"
    if not quota:
        return text + "."
    over = " What is over the quota is pinned or open, or belongs to a study." if used > quota else ""
    return f"{text} of {amount(quota)}.{over}"


def arrange(entries: list[Entry], wanted: str, order: str) -> list[Entry]:
    """The entries that hold every word of the search in title, model, tags or prompt; pinned ones first."""
    field, largest_first = SORTS[order]
    found = chosen(entries, search=wanted, sort=field, descending=largest_first)
    return sorted(found, key=lambda entry: not entry.pinned)


def amount(n_bytes: int) -> str:
    """Bytes for a person."""
    if n_bytes < 1e6:
        return f"{n_bytes / 1e3:.0f} kB"
    return f"{n_bytes / 1e6:.0f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.1f} GB"


def eviction(gone: list[Evicted]) -> str:
    """What was removed to keep the quota, in a sentence."""
    titles = [f"“{one.title}”" for one in gone[:NAMED]] + ([f"{len(gone) - NAMED} more"] if len(gone) > NAMED else [])
    which = ", ".join(titles[:-1]) + " and " + titles[-1] if len(titles) > 1 else titles[0]
    what = "the oldest analysis was" if len(gone) == 1 else f"the {len(gone)} oldest analyses were"
    size = amount(sum(one.bytes for one in gone))
    return f"To stay within the storage quota {what} removed ({size}): {which}. Pin what is to stay."


def _evicted() -> None:
    """What the quota cost this person since the last visit; said until the page is left."""
    gone = [*st.session_state.get(EVICTED, []), *take_told(shelf().own, owner())]
    if gone:
        st.session_state[EVICTED] = gone
        st.text(eviction(gone))


def _undo() -> None:
    """What was deleted since this page was opened, each with a way back; and what went wrong."""
    trouble = st.session_state.pop(TROUBLE, None)
    if trouble:
        st.text(trouble)
    for id, title in st.session_state.get(DELETED, {}).items():
        with st.container(horizontal=True, wrap=False, vertical_alignment="center"):
            st.text(f"Deleted: {title}", width="stretch", wrap=False)
            st.button("Undo", key=f"headwater_undo_{id}", on_click=restore, args=(id,))

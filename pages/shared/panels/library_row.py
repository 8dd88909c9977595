"""One stored analysis in the list: a strip of its heads, what it is, and what can be done with it."""

from __future__ import annotations

from html import escape

import streamlit as st

from backend.errors import HeadwaterError
from backend.shelf import may_change
from backend.store import Entry
from pages.shared.opened import owner, shelf
from pages.shared.panels.run_cards import PLACES

DELETED = "headwater_deleted"  # what was deleted since the page was opened and can come back: id -> title
EVICTED = "headwater_evicted"  # what was evicted and is being told on this page
SEEN_BY = {"private": "only me", "link": "whoever has the link", "listed": "everybody: it is on their first page"}
TROUBLE = "headwater_list_trouble"  # why a change was refused, said once


def library_row(entry: Entry, *, bundled: bool) -> None:
    """Draws the row. Bundled analyses, and those of other people, cannot be changed."""
    with st.container(key=f"headwater_row_{entry.id}", horizontal=True, vertical_alignment="center", gap="small"):
        _strip(entry)
        with st.container(gap=None, width="stretch"):
            st.text(entry.title, wrap=False)
            with st.container(key=f"headwater_facts_{entry.id}"):
                st.text(facts(entry, bundled=bundled), wrap=False)
        page, name = PLACES[entry.type]
        st.page_link(page, label="Open", query_params={name: entry.id})
        if not bundled and not shelf().own.read_only and may_change(entry, owner()):
            _more(entry)


def forget_told() -> None:
    """The first page was left: what was deleted there stays deleted, and what was evicted has been told."""
    for key in (DELETED, EVICTED):
        st.session_state.pop(key, None)


def _strip(entry: Entry) -> None:
    """The heads of a layer in the middle, as a picture; a study has no maps of its own."""
    if entry.type == "study":
        st.text("study", width=100)
        return
    # The id is checked wherever it comes in and is escaped all the same.
    theme = "dark" if st.context.theme.type == "dark" else "light"
    source = f"data/{escape(entry.id)}/grid.png?size=32&amp;theme={theme}"
    st.html(f'<img class="headwater-strip" loading="lazy" alt="" src="{source}">', width=100)


def facts(entry: Entry, *, bundled: bool) -> str:
    """Model, tokens, day and tags on one line."""
    origin = "bundled" if bundled else str(entry.created_at)[:10]
    parts = [entry.model or "unknown model", f"{entry.n_tokens or 0:,} tokens", origin, *entry.tags]
    if entry.visibility != "link":
        parts.insert(0, entry.visibility)
    return " · ".join(["pinned", *parts] if entry.pinned else parts)


def _more(entry: Entry) -> None:
    with st.popover("⋯", type="tertiary", key=f"headwater_more_{entry.id}"):
        pin = "Unpin" if entry.pinned else "Pin"
        st.button(
            pin, key=f"headwater_pin_{entry.id}", on_click=change, args=(entry.id,), kwargs={"pinned": not entry.pinned}
        )
        if entry.owner is not None:
            key = f"headwater_visibility_{entry.id}"
            st.session_state[key] = entry.visibility  # what it was made of may have been made private meanwhile
            st.selectbox(
                "Who may see it",
                list(SEEN_BY),
                format_func=SEEN_BY.__getitem__,
                key=key,
                on_change=_show_to,
                args=(entry.id, key),
            )
        title = f"headwater_title_{entry.id}"
        st.session_state.setdefault(title, entry.title)
        st.text_input("Title", key=title, on_change=_rename, args=(entry.id, title))
        tags = f"headwater_tags_{entry.id}"
        st.session_state.setdefault(tags, ", ".join(entry.tags))
        st.text_input("Tags, with commas between", key=tags, on_change=_tag, args=(entry.id, tags))
        st.button("Delete", key=f"headwater_delete_{entry.id}", on_click=delete, args=(entry.id, entry.title))


def change(id: str, **changes: object) -> None:
    """Writes what may change of an analysis; a refusal is said on the next run."""
    try:
        shelf().own.update(id, **changes)
    except HeadwaterError as error:
        st.session_state[TROUBLE] = str(error)


def _show_to(id: str, key: str) -> None:
    change(id, visibility=st.session_state[key])


def _rename(id: str, key: str) -> None:
    title = st.session_state[key].strip()
    if title:
        change(id, title=title)
    else:
        del st.session_state[key]  # the field shows the old title again


def _tag(id: str, key: str) -> None:
    tags = [tag.strip() for tag in st.session_state[key].split(",")]
    change(id, tags=[tag for tag in tags if tag])


def delete(id: str, title: str) -> None:
    """Takes an analysis out of the library; it can come back until the page is left."""
    try:
        shelf().own.delete(id)
    except HeadwaterError as error:
        st.session_state[TROUBLE] = str(error)
        return
    st.session_state[DELETED] = {**st.session_state.get(DELETED, {}), id: title}


def restore(id: str) -> None:
    """Brings a deleted analysis back."""
    st.session_state[DELETED].pop(id, None)
    try:
        shelf().own.restore(id)
    except HeadwaterError as error:
        st.session_state[TROUBLE] = str(error)

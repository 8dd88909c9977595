"""What a person calls a head and notes about it, kept beside the analysis; whoever may change it may write."""

from __future__ import annotations

import re

import pyarrow as pa
import streamlit as st

from backend.errors import HeadwaterError
from backend.shelf import may_change
from backend.store import Analysis
from pages.shared.opened import owner, shelf
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

KEY = "head_notes_"
TROUBLE = KEY + "trouble"  # why something was not kept, said once
LONGEST_LABEL = 80
HEAD = re.compile(r"\d{1,5}\.\d{1,5}")


def head_notes(state: ViewState, analysis: Analysis) -> None:
    """Draws the label and note of the chosen head, and the list of all."""
    library = shelf().library_of(analysis.id)
    beside = library.details(analysis.id)
    name = f"{state.layer}.{state.head}"
    heads = {place: entry for place, entry in beside.heads.items() if HEAD.fullmatch(place) and isinstance(entry, dict)}
    own = heads.get(name, {})
    writable = not library.read_only and may_change(shelf().entry(analysis.id, owner()), owner())
    trouble = st.session_state.pop(TROUBLE, None)
    if trouble:
        st.text(trouble)
    if state.kind != analysis.layers()[0].kind:
        st.text("Labels and notes are kept by layer and head, for all kinds of attention together.")
    if writable:
        fields(analysis.id, name, own)
    else:
        st.text("Only who ran this analysis may write here. Save a copy of it to keep notes of your own.")
        st.text(f"Head {name}: {own.get('label') or 'no label of its own'}")
        if own.get("note"):
            st.text(own["note"])
    table = table_of(heads)
    count = table.num_rows
    figure(
        "head_notes",
        None,
        sentence=f"{count} head{'s' if count != 1 else ''} of this analysis {'have' if count != 1 else 'has'} notes.",
        table=table if count else None,
    )


def fields(id: str, name: str, own: dict) -> None:
    """The fields of one head; what is typed is kept at once."""
    keys = {what: f"{KEY}{what}_{id}_{name}" for what in ("label", "note", "pinned")}
    for what, key in keys.items():
        stored = own.get(what, "")
        st.session_state.setdefault(key, bool(stored) if what == "pinned" else str(stored))
    change = {"on_change": keep, "args": (id, name, keys)}
    label, pinned = st.columns([0.8, 0.2], vertical_alignment="bottom")
    label.text_input(f"Your label of head {name}", key=keys["label"], max_chars=LONGEST_LABEL, **change)
    pinned.checkbox("Pinned", key=keys["pinned"], **change)
    st.text_area("Note", key=keys["note"], max_chars=2000, height=100, **change)


def keep(id: str, name: str, keys: dict[str, str]) -> None:
    """Writes what was typed. Empty fields take the entry away."""
    typed = {what: st.session_state[key] for what, key in keys.items()}
    typed = {what: value.strip() if isinstance(value, str) else value for what, value in typed.items()}
    kept = {what: value for what, value in typed.items() if value}
    try:
        shelf().library_of(id).update(id, heads={name: kept})
    except HeadwaterError as error:
        st.session_state[TROUBLE] = str(error)


def table_of(heads: dict[str, dict]) -> pa.Table:
    """All labelled heads in the order of layers and heads."""
    places = sorted(heads, key=lambda name: tuple(int(part) for part in name.split(".")))
    return pa.table(
        {
            "head": pa.array(places, pa.string()),
            "label": pa.array([str(heads[place].get("label", "")) for place in places], pa.string()),
            "note": pa.array([str(heads[place].get("note", "")) for place in places], pa.string()),
            "pinned": pa.array([bool(heads[place].get("pinned")) for place in places], pa.bool_()),
        }
    )

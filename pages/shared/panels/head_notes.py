"""What a person calls a head and notes about it, kept beside the analysis; whoever may change it may write."""

from __future__ import annotations

import pyarrow as pa
import streamlit as st

from backend.errors import HeadwaterError
from backend.shelf import may_change
from backend.store import Analysis, HeadMark
from backend.store.head_marks import Place, name_of
from pages.shared.opened import owner, shelf
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

KEY = "head_notes_"
TROUBLE = KEY + "trouble"  # why something was not kept, said once
LONGEST_LABEL = 80


def head_notes(state: ViewState, analysis: Analysis) -> None:
    """Draws the label and note of the chosen head, and the list of all."""
    place = (state.kind, state.layer, state.head)
    marks = shelf().head_marks(analysis.id, owner())
    own = marks.get(place, HeadMark())
    read_only = shelf().library_of(analysis.id).read_only
    trouble = st.session_state.pop(TROUBLE, None)
    if trouble:
        st.text(trouble)
    if not read_only and may_change(shelf().entry(analysis.id, owner()), owner()):
        fields(analysis.id, place, own)
    else:
        st.text("Only who ran this analysis may write here. Save a copy of it to keep notes of your own.")
        st.text(f"Head {name_of(*place)}: {own.label or 'no label of its own'}")
        if own.note:
            st.text(own.note)
    table = table_of(marks)
    count = table.num_rows
    figure(
        "head_notes",
        None,
        sentence=f"{count} head{'s' if count != 1 else ''} of this analysis {'have' if count != 1 else 'has'} notes.",
        table=table if count else None,
    )


def fields(id: str, place: Place, own: HeadMark) -> None:
    """The fields of one head; what is typed is kept at once."""
    name = name_of(*place)
    keys = {what: f"{KEY}{what}_{id}_{name}" for what in ("label", "note", "pinned")}
    for what, key in keys.items():
        st.session_state.setdefault(key, getattr(own, what))
    change = {"on_change": keep, "args": (id, place, keys)}
    label, pinned = st.columns([0.8, 0.2], vertical_alignment="bottom")
    label.text_input(f"Your label of head {name}", key=keys["label"], max_chars=LONGEST_LABEL, **change)
    pinned.checkbox("Pinned", key=keys["pinned"], **change)
    st.text_area("Note", key=keys["note"], max_chars=2000, height=100, **change)


def keep(id: str, place: Place, keys: dict[str, str]) -> None:
    """Writes what was typed. Empty fields take the entry away."""
    typed = {what: st.session_state[key] for what, key in keys.items()}
    typed = {what: value.strip() if isinstance(value, str) else value for what, value in typed.items()}
    try:
        shelf().mark_head(id, *place, owner=owner(), **typed)
    except HeadwaterError as error:
        st.session_state[TROUBLE] = str(error)


def table_of(marks: dict[Place, HeadMark]) -> pa.Table:
    """All labelled heads in the order of kinds, layers and heads."""
    places = sorted(marks)
    return pa.table(
        {
            "head": pa.array([name_of(*place) for place in places], pa.string()),
            "label": pa.array([marks[place].label for place in places], pa.string()),
            "note": pa.array([marks[place].note for place in places], pa.string()),
            "pinned": pa.array([marks[place].pinned for place in places], pa.bool_()),
        }
    )

"""Takes in an analysis file that somebody else exported: by upload, and by path where the server is one's own."""

from __future__ import annotations

import tempfile
from pathlib import Path

import streamlit as st

from backend.errors import HeadwaterError
from backend.settings import IMPORT_MB
from pages.shared.model_access import any_model
from pages.shared.opened import owner, shelf

FILE, PATH, SAID = "headwater_import_file", "headwater_import_path", "headwater_import_said"


def import_form() -> None:
    """Draws it, folded up; nothing where the server only shows."""
    if shelf().own.read_only:
        return
    with st.expander("Import an analysis", key="headwater_import"):
        said = st.session_state.pop(SAID, None)
        if said:
            st.text(said)
        st.file_uploader(
            "A .duckdb file that Headwater exported",
            type="duckdb",
            key=FILE,
            max_upload_size=IMPORT_MB.integer(),
            on_change=_take_upload,
        )
        if any_model():  # the owner of the machine may name its files
            st.text_input("Or its path on this machine", key=PATH, on_change=_take_path)


def _take_upload() -> None:
    """Writes the upload to a file and takes it in; a callback."""
    upload = st.session_state[FILE]
    if upload is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "upload.duckdb"
        path.write_bytes(upload.getbuffer())
        _take(path)


def _take_path() -> None:
    """A callback."""
    text = st.session_state[PATH].strip()
    if text:
        _take(Path(text).expanduser())


def _take(path: Path) -> None:
    try:
        entry = shelf().own.entry(shelf().take_in(path, owner()))
    except HeadwaterError as error:
        st.session_state[SAID] = str(error)
    except OSError as error:
        st.session_state[SAID] = f"This file cannot be read ({error.strerror}). Choose another one."
    else:
        st.session_state[SAID] = f"Imported: {entry.title}"

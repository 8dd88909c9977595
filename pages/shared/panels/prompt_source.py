"""Where the texts of a study come from: those that come with Headwater, pasted ones, or a file."""

from __future__ import annotations

import streamlit as st

from backend.prompt_sets import PromptSet, read_bytes, read_set

FORMS = "apart by blank lines, or lines of JSON with a text"
NAMED = 5  # lines that were left out and are named


def prompt_source(key: str, what: str, bundled: str) -> tuple[str, PromptSet] | None:
    """Draws the choice; the name of the set and its texts (none = the bundled ones), None where it has said what lacks.

    what: the plural, such as "Prompts"; bundled: what the bundled ones are. Refused where nothing could be read."""
    sources = {"bundled": bundled, "pasted": "Pasted", "file": "A file"}
    source = st.segmented_control(what, list(sources), format_func=sources.get, default="bundled", key=key + "from")
    if source not in ("pasted", "file"):
        return bundled, PromptSet(())
    if source == "pasted":
        text = st.text_area(f"{what}, {FORMS}", key=key + "text")
        if not (text or "").strip():
            st.text(f"Paste the {what.lower()}.")
            return None
        name, chosen = "pasted", read_set(text)
    else:
        upload = st.file_uploader(f"A text file of {what.lower()} {FORMS}", key=key + "file")
        if upload is None:
            st.text("Choose a file.")
            return None
        name, chosen = upload.name[:60], read_bytes(upload.getvalue())
    for one in chosen.left_out[:NAMED]:
        st.text(f"Line {one.line} is left out: {one.reason}.")
    return name, chosen

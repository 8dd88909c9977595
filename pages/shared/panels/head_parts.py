"""What the page of heads shows below its pictures: one part at a time, computed only once it is chosen."""

from __future__ import annotations

import streamlit as st

from backend.store import Analysis
from pages.shared.address import select
from pages.shared.panels.atlas_card import atlas_card
from pages.shared.panels.atlas_labels import atlas_labels
from pages.shared.panels.head_align import has_two_texts, head_align
from pages.shared.panels.head_bertviz import head_bertviz
from pages.shared.panels.head_generation import head_generation
from pages.shared.panels.head_lines import head_lines
from pages.shared.panels.head_notes import head_notes
from pages.shared.panels.head_page import head_page
from pages.shared.panels.head_picture import has_picture, head_picture
from pages.shared.panels.head_probe import head_probe
from pages.shared.panels.head_text import head_text
from pages.shared.panels.heads_alike import heads_alike
from pages.shared.panels.readable import readable
from pages.shared.panels.sink_free_values import said_with_sinks
from pages.shared.view_state import ViewState

KEY = "headwater_part"
HONOURED = {"text", "lines", "generation", "notes"}  # parts that are without sinks where the switch says so
OWN_WEIGHTS = "this part shows the model's own weights."
WITH_SINKS = {  # why the numbers of the others are with sinks whatever it says
    "labels": "the rules of the labels look at whole rows, sinks first.",
    "card": "these numbers are what was measured while the model ran.",
    "alike": "heads are compared by whole rows, and a sink is part of what makes two heads alike.",
    "bertviz": "BertViz's views draw the model's own weights.",
    "probe": "the study counts whole rows.",
    "page": "the file holds the model's own maps.",
    "picture": "patches are coloured by the model's own weights.",
    "align": "coverage and alignment are of whole rows.",
}
PARTS = {  # name in the address -> words, what draws it
    "labels": ("Labels", atlas_labels),
    "card": ("This head", atlas_card),
    "alike": ("Alike", heads_alike),
    "picture": ("Picture", head_picture),
    "align": ("Alignment", head_align),
    "text": ("Text", head_text),
    "lines": ("Lines", head_lines),
    "bertviz": ("BertViz", head_bertviz),
    "generation": ("Next tokens", head_generation),
    "probe": ("Probe", head_probe),
    "notes": ("Notes", head_notes),
    "page": ("As a page", head_page),
}

ONLY_WHERE = {"picture": has_picture, "align": has_two_texts}  # parts that not every analysis has


def head_parts(state: ViewState, analysis: Analysis) -> None:
    """Draws the choice and the chosen part."""
    part = state.more("part")
    st.session_state[KEY] = part if part in PARTS else None
    st.segmented_control(
        "More about the heads",
        [name for name in PARTS if name == part or name not in ONLY_WHERE or ONLY_WHERE[name](analysis)],
        format_func=lambda name: PARTS[name][0],
        key=KEY,
        on_change=lambda: select(part=st.session_state[KEY]),
    )
    if part in PARTS:
        with st.container(key=f"{KEY}_{part}"), readable():
            if part not in HONOURED:
                said_with_sinks(state, WITH_SINKS.get(part, OWN_WEIGHTS))
            PARTS[part][1](state, analysis)

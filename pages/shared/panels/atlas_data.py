"""What the atlas of heads is made of, read once per analysis: numbers, labels with the limits of the address, probe."""

from __future__ import annotations

import math
from contextlib import suppress

import streamlit as st

from backend import head_labels
from backend.atlas import PROBE, Atlas, read_atlas
from backend.errors import Damaged, NewerFile, NotFound
from backend.store import Analysis, Study
from pages.shared.opened import open_study, owner, shelf
from pages.shared.view_state import ViewState

QUICK_ROWS = 1_000_000  # rows of all heads; about a second
LIMIT = "limit_"  # address: limit_<condition>=<number>


def atlas_of(analysis: Analysis, kind: str) -> Atlas:
    """Every number of every head, the scores of the newest random-repeat study of this model among them."""
    probe = probe_of(analysis)
    return _atlas(analysis, analysis.id, kind, probe, probe.id if probe is not None else None)


@st.cache_resource(max_entries=32, show_spinner=False)
def _atlas(_analysis: Analysis, id: str, kind: str, _probe: Study | None, probe: str | None) -> Atlas:
    return read_atlas(_analysis, kind, _probe)


def probe_of(analysis: Analysis) -> Study | None:
    """The newest finished random-repeat study of the same model that this person may see."""
    model, weights = str(analysis.info.get("model", "")), analysis.info.get("weights_hash")
    for entry in shelf().entries(owner()):
        if entry.type == "study" and entry.study == PROBE and entry.model == model:
            with suppress(NotFound, Damaged, NewerFile):
                study = open_study(entry.id)
                if study.info.get("weights_hash") == weights and "scores" in study.tables():
                    return study
    return None


def limits_of(state: ViewState) -> dict[str, float]:
    """The limits that the address moves; what is no number there is left out."""
    limits = {}
    for name in head_labels.conditions():
        with suppress(ValueError):
            value = float(state.more(LIMIT + name, "nan"))
            if math.isfinite(value):
                limits[name] = value
    return limits


def quick_labels(state: ViewState, analysis: Analysis) -> dict[tuple[int, int], str]:
    """(layer, head) -> its labels in words; {} for analyses so large that reading their rows would hold up the page."""
    heads = sum(info.heads for info in analysis.layers(state.kind))
    if heads * int(analysis.info.get("n_tokens") or 0) > QUICK_ROWS:
        return {}
    labels = atlas_of(analysis, state.kind).labels(limits_of(state))
    return {place: labels_in_words(found) for place, found in labels.items()}


def labels_sentence(state: ViewState, analysis: Analysis) -> str:
    """What the labels of the chosen head say, with their scores; "" where it has none."""
    if not quick_labels(state, analysis):
        return ""
    given = atlas_of(analysis, state.kind).labels(limits_of(state))[state.layer, state.head]
    known = head_labels.all()
    return " ".join(
        f"{known[name].words.capitalize()} {value:.2f}: {known[name].says}" for name, value in given.items()
    )


def labels_in_words(labels: dict[str, float]) -> str:
    """Labels with their scores, never a bare one: "sink 0.87, local 0.04"."""
    known = head_labels.all()
    return ", ".join(f"{known[name].words} {value:.2f}" for name, value in labels.items())

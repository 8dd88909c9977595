"""What the atlas of heads is made of, read once per analysis: numbers, labels with the limits of the address, probe."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress

import streamlit as st

from backend import head_labels
from backend.atlas import PROBE, Atlas, read_atlas
from backend.errors import Damaged, NewerFile, NotFound
from backend.sampled_scores import sampled_scores
from backend.store import Analysis, Study
from pages.shared.opened import open_study
from pages.shared.view_state import ViewState

QUICK_ROWS = 1_000_000  # rows of all heads; about a second
LIMIT = "limit_"  # address: limit_<condition>=<number>


def atlas_of(state: ViewState, analysis: Analysis, *, sampled: bool = False) -> Atlas:
    """Every number of every head; the scores of the random-repeat study of the address stand before the text's own.

    sampled: with the scores that are measured on rows of the exact maps."""
    probe = probe_of(state, analysis)
    return _atlas(analysis, analysis.id, state.kind, probe, probe.id if probe is not None else None, sampled)


@st.cache_resource(max_entries=32, show_spinner=False)
def _atlas(_analysis: Analysis, id: str, kind: str, _probe: Study | None, probe: str | None, sampled: bool) -> Atlas:
    return read_atlas(_analysis, kind, _probe, _sampled(_analysis, id, kind) if sampled else None)


@st.cache_resource(max_entries=16, show_spinner=False)
def _sampled(_analysis: Analysis, id: str, kind: str) -> dict[str, dict[tuple[int, int], float]]:
    words = "Rows of every head"
    bar = st.progress(0.0, words)
    found = sampled_scores(_analysis, kind, lambda share: bar.progress(min(share, 1.0), words))
    bar.empty()
    return found


def probe_of(state: ViewState, analysis: Analysis) -> Study | None:
    """The study of the address where it is a random-repeat study of the same weights, so that a link shows the same."""
    if state.study is None:
        return None
    try:
        study = open_study(state.study)
        same = all(study.info.get(name) == analysis.info.get(name) for name in ("model", "weights_hash"))
        return study if same and study.info.get("study") == PROBE and "scores" in study.tables() else None
    except (NotFound, Damaged, NewerFile):
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
    atlas = atlas_of(state, analysis)
    return {place: labels_in_words(found, atlas.probed) for place, found in atlas.labels(limits_of(state)).items()}


def labels_sentence(state: ViewState, analysis: Analysis) -> str:
    """What the labels of the chosen head say, with their scores; "" where it has none."""
    if not quick_labels(state, analysis):
        return ""
    atlas = atlas_of(state, analysis)
    given = atlas.labels(limits_of(state))[state.layer, state.head]
    known = head_labels.all()
    return " ".join(
        f"{known[name].words.capitalize()} {value:.2f}{source_of(name, atlas.probed)}: {known[name].says}"
        for name, value in given.items()
    )


def labels_in_words(labels: dict[str, float], probed: Collection[str] = ()) -> str:
    """Labels with their scores, never a bare one: "sink 0.87, local 0.04". probed: scores that are not the text's."""
    known = head_labels.all()
    return ", ".join(f"{known[name].words} {value:.2f}{source_of(name, probed)}" for name, value in labels.items())


def source_of(label: str, probed: Collection[str]) -> str:
    """What a score was measured on where that is not the text: the random-repeat study."""
    scores = {condition.score for condition in head_labels.all()[label].conditions}
    return " on random repeats" if scores & set(probed) else ""

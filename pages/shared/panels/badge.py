"""The badge of the self-check: how the numbers of this analysis were proven, with the figures behind a click."""

from __future__ import annotations

import streamlit as st

MEANING = {
    "checked": "The maps were compared with the model's own attention in this run.",
    "dense capture": "This family computes its own softmax; its probabilities were captured whole.",
    "not in the list": "No self-check of this model's attention is stored with this analysis.",
}


def badge(info: dict) -> None:
    """Draws the badge; `info["checks"]` holds the figures of the self-check, by name."""
    checks = info.get("checks") or {}
    state = state_of(checks)
    with st.popover(state, type="tertiary"):
        st.text(MEANING[state])
        for name, value in checks.items():
            st.text(f"{str(name).replace('_', ' ')}: {_figure(value)}")


def state_of(checks: dict) -> str:
    """Which of the three badges the figures earn."""
    if checks.get("capture") == "dense":
        return "dense capture"
    return "checked" if checks else "not in the list"


def _figure(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)

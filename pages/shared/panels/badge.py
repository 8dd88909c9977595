"""The badge of the self-check: whether the maps were proven to be the model's own, with the figures behind a click."""

from __future__ import annotations

import streamlit as st

IN_THE_LIST = "in the list"  # the status that backend/models/check.py gives to families with tests of their own
MEANING = {
    "checked": "Before the run, a probe of a few tokens showed that these maps are the model's own.",
    "not in the list": "The probe passed, but this family of models has no tests of its own in Headwater.",
    "dense capture": "This family computes its own softmax; the probabilities it made were captured whole.",
    "unchecked": "No self-check is stored with this analysis.",
}
COMPUTED = {
    "tiled": "tiled: the numbers were computed block by block, so that no whole map was ever held.",
    "triton": "triton: the numbers were computed block by block, by a program for the graphics card.",
    "reference": "reference: the numbers were computed from whole maps, with the highest precision.",
}
CHECKS = {
    "maps_equal_eager": "largest difference from the model's own maps, as a weight",
    "rows_add_up": "largest difference of a row's sum from what it must be",
    "logits_unchanged": "change of the model's output by capturing, relative to the largest",
    "map_is_used": "change of the output when every token sees only itself, relative to the largest",
}


def badge(info: dict) -> None:
    """Draws the badge of an analysis."""
    checks = info.get("checks") or {}
    state = state_of(checks, str(info.get("implementation", "")))
    with st.popover(state, type="tertiary"):
        st.text(MEANING[state])
        if (computed := COMPUTED.get(str(info.get("implementation", "")))) is not None:
            st.text(computed)
        for sentence in figures(checks):
            st.text(sentence)


def state_of(checks: dict, implementation: str) -> str:
    """Which badge the stored checks earn."""
    if implementation == "dense":
        return "dense capture"
    if not any(isinstance(value, dict) for value in checks.values()):
        return "unchecked"
    return "checked" if checks.get("status") == IN_THE_LIST else "not in the list"


def figures(checks: dict) -> list[str]:
    """A line per check: what was measured, the value, and what was allowed."""
    lines = [f"Family: {checks['family']}"] if checks.get("family") else []
    for name, value in checks.items():
        if isinstance(value, dict) and isinstance(value.get("error"), int | float):
            what = CHECKS.get(name, name.replace("_", " "))
            tolerance = value.get("tolerance")
            allowed = f" (allowed {tolerance:.1e})" if isinstance(tolerance, int | float) else ""
            lines.append(f"{what[0].upper()}{what[1:]}: {value['error']:.1e}{allowed}")
    return lines

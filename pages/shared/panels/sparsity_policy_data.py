"""What policies keep of the open analysis: computed once per analysis and budget, kept between visits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from backend import policies
from backend.map_sizes import map_sizes
from backend.sparsity.simulate import Outcome, Simulation
from backend.sparsity.stored_layers import context_length, stored_layers
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.view_state import ViewState

KEEP = (0, 5, 10, 25, 50, 75, 100)  # percent of the keys
PLAIN_KEEP, PLAIN_POLICY = 25, "snapkv"
MOST = 4  # analyses whose scores are kept in memory
KEEP_KEY, POLICY_KEY = "headwater_sparsity_keep", "headwater_sparsity_policy"


@dataclass(frozen=True)
class PolicyChoice:
    """What the page looks at."""

    keep: int  # percent
    policy: str


def policy_choice(state: ViewState) -> PolicyChoice:
    """Budget and policy: two choices that are in the address."""
    shelf = policies.all()
    text, name = state.more("keep", str(PLAIN_KEEP)), state.more("policy", PLAIN_POLICY)
    keep = int(text) if text.isdecimal() and int(text) in KEEP else PLAIN_KEEP
    name = name if name in shelf else PLAIN_POLICY
    st.session_state[KEEP_KEY], st.session_state[POLICY_KEY] = keep, name
    with st.container(horizontal=True, gap="medium"):
        st.segmented_control(
            "Keys kept", KEEP, format_func=lambda percent: f"{percent} %", key=KEEP_KEY, on_change=_take_keep
        )
        st.selectbox(
            "Policy", list(shelf), format_func=lambda one: shelf[one].title, key=POLICY_KEY, on_change=_take_policy
        )
    st.text(f"{shelf[name].title}: {shelf[name].caption}")
    return PolicyChoice(keep, name)


def _take_keep() -> None:
    chosen = st.session_state[KEEP_KEY]
    select(keep=None if chosen in (None, PLAIN_KEEP) else str(chosen))


def _take_policy() -> None:
    chosen = st.session_state[POLICY_KEY]
    select(policy=None if chosen == PLAIN_POLICY else chosen)


@dataclass(frozen=True, eq=False)
class Kept:
    """All policies at one budget on one analysis."""

    n: int  # tokens in the cache
    outcomes: dict[str, Outcome]
    refused: dict[str, str]


def kept(analysis: Analysis, kind: str, keep: int) -> Kept:
    """Refused where the analysis has no cache to shrink or lacks exact maps."""
    place = st.empty()
    remembered, key = _remembered(), (analysis.id, kind)
    if key not in remembered:
        layers = stored_layers(analysis, kind)
        made = Simulation.of(layers, policies.all(), _step(place, "Scoring keys", len(layers)))
        remembered[key] = (made, {})
        while len(remembered) > MOST:
            remembered.pop(next(iter(remembered)), None)
    made, by_budget = remembered[key]
    if keep not in by_budget:
        by_budget[keep] = made.outcomes(keep / 100, _step(place, "Measuring what is retained", len(made.layers)))
    place.empty()
    size = map_sizes(analysis)[kind]
    length = next(iter(size.values())).queries
    return Kept(context_length(length), {one.policy: one for one in by_budget[keep]}, made.refused)


@st.cache_resource(show_spinner=False)
def _remembered() -> dict[tuple[str, str], tuple[Simulation, dict[int, list[Outcome]]]]:
    """What was computed, by analysis and kind. Filled outside, so that progress can be shown meanwhile."""
    return {}


def _step(place, words: str, layers: int):
    return lambda at: None if at % 3 else place.progress(at / layers, text=f"{words}: layer {at} of {layers}")


def retained_grid(outcome: Outcome) -> tuple[list[int], np.ndarray]:
    """Layers, and what every head retains: [layers, heads], NaN where a layer has fewer heads."""
    wide = max(len(one.retained) for one in outcome.layers)
    grid = np.full((len(outcome.layers), wide), np.nan)
    for at, one in enumerate(outcome.layers):
        grid[at, : len(one.retained)] = one.retained.numpy()
    return [one.layer for one in outcome.layers], grid

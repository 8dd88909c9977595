"""What policies keep of the open analysis: computed once per analysis and budget, kept between visits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from backend import policies
from backend.sparsity.simulate import Outcome, Simulation
from backend.sparsity.stored_layers import context_length, stored_layers
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.view_state import ViewState

KEEP = (0, 5, 10, 25, 50, 75, 100)  # percent of the keys
PLAIN_KEEP, PLAIN_POLICY = 25, "snapkv"
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
    made = _simulation(analysis, analysis.id, kind, place)
    found = _outcomes(analysis.id, kind, keep, made, place)
    place.empty()
    size = len(analysis.tokens_list()) if kind == "self" else sum(t.side == "target" for t in analysis.tokens_list())
    return Kept(context_length(size), {one.policy: one for one in found}, made.refused)


@st.cache_resource(max_entries=4, show_spinner=False)
def _simulation(_analysis: Analysis, id: str, kind: str, _place) -> Simulation:
    layers = stored_layers(_analysis, kind)
    return Simulation.of(layers, policies.all(), _step(_place, "Scoring keys", len(layers)))


@st.cache_resource(max_entries=16, show_spinner=False)
def _outcomes(id: str, kind: str, keep: int, _made: Simulation, _place) -> list[Outcome]:
    return _made.outcomes(keep / 100, _step(_place, "Measuring what is retained", len(_made.layers)))


def _step(place, words: str, layers: int):
    return lambda at: None if at % 3 else place.progress(at / layers, text=f"{words}: layer {at} of {layers}")


def retained_grid(outcome: Outcome) -> tuple[list[int], np.ndarray]:
    """Layers, and what every head retains: [layers, heads], NaN where a layer has fewer heads."""
    wide = max(len(one.retained) for one in outcome.layers)
    grid = np.full((len(outcome.layers), wide), np.nan)
    for at, one in enumerate(outcome.layers):
        grid[at, : len(one.retained)] = one.retained.numpy()
    return [one.layer for one in outcome.layers], grid

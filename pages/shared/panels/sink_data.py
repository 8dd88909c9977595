"""What the panels of the page of sinks are made of: computed once per analysis and limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from backend.map_sizes import SIDES
from backend.sinks.budget import Budget, budget
from backend.sinks.detection import detected, main_sink, sink_heads
from backend.sinks.importance import Importance, importance
from backend.sinks.token_types import token_types
from backend.store import Analysis
from backend.types import Token
from pages.shared.panels.sink_settings import SinkSettings
from pages.shared.view_state import ViewState


@dataclass(frozen=True, eq=False)
class SinkData:
    """Of one kind of attention of one analysis, under some limits. Arrays are [L, H, N] as in Importance."""

    analysis: Analysis
    kind: str
    limits: SinkSettings
    found: Importance
    sinks: np.ndarray  # bool [L, H, N]
    tokens: tuple[Token, ...]  # of the keys' side
    types: list[str]
    key: int  # the key the page is about: the chosen one, else the sink of most heads
    learned_chosen: bool  # the learned sink is looked at instead of a key

    @property
    def labels(self) -> list[str]:
        return [token.label for token in self.tokens]

    @property
    def has_learned(self) -> bool:
        return bool((np.nan_to_num(self.found.learned) > 0).any())

    @property
    def named_key(self) -> str:
        """The key in words."""
        return f"token {self.key} “{self.tokens[self.key].label}”"

    @property
    def head_values(self) -> np.ndarray:
        """What the heat shows, [L, H]: importance of the key, or the mass of the learned sink."""
        return self.found.learned if self.learned_chosen else self.found.values[:, :, self.key]

    @property
    def n_sink_heads(self) -> int:
        return int(sink_heads(self.found, self.limits.epsilon).sum())

    def place(self, layer: int) -> int:
        """Where the model's layer is in the arrays."""
        return self.found.layers.index(layer)


def sink_data(state: ViewState, analysis: Analysis, limits: SinkSettings) -> SinkData:
    """The data of the view."""
    found = _importance(analysis, analysis.id, state.kind)
    sinks = detected(found, *limits.detection)
    tokens = tuple(token for token in analysis.tokens_list() if token.side == SIDES[state.kind][1])
    return SinkData(
        analysis=analysis,
        kind=state.kind,
        limits=limits,
        found=found,
        sinks=sinks,
        tokens=tokens,
        types=token_types(tokens, begin_token(analysis)),
        key=main_sink(found, sinks) if state.key is None else state.key,
        learned_chosen=state.more("sink") == "learned" and bool((np.nan_to_num(found.learned) > 0).any()),
    )


def begin_token(analysis: Analysis) -> int | None:
    """Id of the model's begin-of-text token, in analyses that know it."""
    value = analysis.info.get("bos_token_id")
    return value if isinstance(value, int) else None


def budget_of(data: SinkData) -> Budget:
    """The mass budget of every head."""
    limits = (*data.limits.detection, data.limits.near)
    return _budget(data, data.analysis.id, data.kind, limits)


@st.cache_resource(max_entries=24, show_spinner=False)
def _importance(_analysis: Analysis, id: str, kind: str) -> Importance:
    return importance(_analysis, kind)


@st.cache_resource(max_entries=24, show_spinner=False)
def _budget(_data: SinkData, id: str, kind: str, limits: tuple) -> Budget:
    return budget(_data.analysis, _data.found, _data.sinks, _data.types, kind, _data.limits.near)

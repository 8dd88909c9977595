"""What counts as a sink: the limits, always shown in the column on the left, adjustable, and in the address."""

from __future__ import annotations

import math
from dataclasses import dataclass

import streamlit as st

from backend.sinks.budget import NEAR_TOKENS
from backend.sinks.detection import EPSILON, LEAST_ROWS, THETA, TIMES
from pages.shared.address import select
from pages.shared.view_state import ViewState

KEY = "headwater_sinks_"


@dataclass(frozen=True)
class SinkSettings:
    """The limits. Their names are the parameters of the address."""

    epsilon: float = EPSILON  # a head is a sink head above it
    theta: float = THETA  # a key is a sink of a head above it
    rule: str = "share"  # "share": above theta; "median": above `times` times the median of the head
    times: float = TIMES
    least: int = LEAST_ROWS  # where at least so many rows see it
    near: int = NEAR_TOKENS  # tokens that count as near in the budget

    @property
    def detection(self) -> tuple[float, int, float | None]:
        """theta, least rows and times, as detection.detected takes them."""
        return self.theta, self.least, self.times if self.rule == "median" else None

    @property
    def limit_words(self) -> str:
        """What the importance of a sink is above."""
        return f"{self.times:g} times the median of its head" if self.rule == "median" else f"θ = {self.theta:g}"


PLAIN = SinkSettings()
RULES = {"share": "a share, θ", "median": "× the median"}
MOST_TIMES = 1000.0


def sink_settings(state: ViewState) -> SinkSettings:
    """Draws the limits in the sidebar and gives those of the address; what makes no sense there is left out."""
    chosen = SinkSettings(
        epsilon=share_of(state, "epsilon", PLAIN.epsilon),
        theta=share_of(state, "theta", PLAIN.theta),
        rule=rule if (rule := state.more("rule", PLAIN.rule)) in RULES else PLAIN.rule,
        times=number_of(state, "times", PLAIN.times, 1.0, MOST_TIMES),
        least=count_of(state, "least", PLAIN.least),
        near=count_of(state, "near", PLAIN.near),
    )
    with st.sidebar, st.expander("What counts as a sink", expanded=True):
        _number("ε: sink head above", "epsilon", chosen.epsilon, 0.0, 1.0, 0.05)
        st.session_state[KEY + "rule"] = chosen.rule
        st.selectbox(
            "sink token above", list(RULES), format_func=RULES.get, key=KEY + "rule", on_change=_take, args=("rule",)
        )
        if chosen.rule == "median":
            _number("× the median of its head", "times", chosen.times, 1.0, MOST_TIMES, 1.0)
        else:
            _number("θ: share", "theta", chosen.theta, 0.0, 1.0, 0.05)
        _number("rows that see it, at least", "least", chosen.least, 1, 100_000, 1)
        _number("near: tokens within", "near", chosen.near, 1, 100_000, 1)
    return chosen


def share_of(state: ViewState, name: str, default: float) -> float:
    """A number from 0 to 1 out of the address."""
    return number_of(state, name, default, 0.0, 1.0)


def number_of(state: ViewState, name: str, default: float, least: float, most: float) -> float:
    """A number from `least` to `most` out of the address."""
    try:
        value = float(state.more(name, str(default)))
    except ValueError:
        return default
    return value if math.isfinite(value) and least <= value <= most else default


def count_of(state: ViewState, name: str, default: int) -> int:
    """A number from 1 on out of the address."""
    text = state.more(name, str(default))
    return int(text) if text.isdecimal() and len(text) <= 6 and int(text) >= 1 else default


def _number(label: str, name: str, value: float, low: float, high: float, step: float) -> None:
    key = KEY + name
    st.session_state[key] = value
    st.number_input(label, low, high, step=step, key=key, on_change=_take, args=(name,))


def _take(name: str) -> None:
    value = st.session_state[KEY + name]
    default = getattr(PLAIN, name)
    select(**{name: None if value == default else f"{value:.6g}" if isinstance(value, float) else str(value)})

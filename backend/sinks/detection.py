"""Sinks anywhere in the sequence (K-02): which keys hold more than their share of which heads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.detected import LEAST_ROWS, THETA
from backend.sinks.importance import Importance

TIMES = 10.0  # or, by the other rule, above so many times the median of the head
EPSILON = 0.3  # a head is a sink head where key 0 is above this
NONE_LEFT = 1e-6  # a row with less mass than this beside the sinks has no share to speak of


@dataclass(frozen=True)
class SinkToken:
    """One position that is a sink of at least one head."""

    key: int
    heads: int  # heads of which it is a sink
    largest: float  # largest importance over heads
    largest_head: tuple[int, int]  # (layer, head) that has it
    mass: float  # mean share of the attention of all heads


def detected(
    found: Importance, theta: float = THETA, least_rows: int = LEAST_ROWS, times: float | None = None
) -> np.ndarray:
    """Which keys are sinks of which heads: bool [L, H, N]. With `times` by the relative rule, see `above`."""
    return above(found.values, found.rows, theta, least_rows, times)


def above(
    importance: np.ndarray, rows: np.ndarray, theta: float, least_rows: int, times: float | None = None
) -> np.ndarray:
    """Keys [..., N] that enough rows see and that hold more than theta; or, where `times` is given, more than so many
    times the median of their head over the keys that enough rows see."""
    values = np.where(rows >= least_rows, importance, np.nan)
    if times is None:
        limit = np.asarray(theta)
    else:
        known = np.isfinite(values).any(-1, keepdims=True)
        limit = times * np.nanmedian(np.where(known, values, 0.0), -1, keepdims=True)
    return np.nan_to_num(values, nan=-1.0) > limit


def eligible(found: Importance, least_rows: int = LEAST_ROWS) -> np.ndarray:
    """Keys that enough rows see to be called a sink or not, in some layer: bool [N]."""
    return (found.rows >= least_rows).any((0, 1))


def sink_tokens(found: Importance, sinks: np.ndarray) -> list[SinkToken]:
    """The positions that are sinks, those of most heads first."""
    counts = sinks.sum((0, 1))
    shares = mass_per_key(found)
    tokens = []
    for key in np.flatnonzero(counts):
        values = np.where(sinks[:, :, key], found.values[:, :, key], -1.0)
        layer, head = np.unravel_index(int(values.argmax()), values.shape)
        tokens.append(
            SinkToken(
                int(key),
                int(counts[key]),
                float(values[layer, head]),
                (found.layers[layer], int(head)),
                float(shares[key]),
            )
        )
    return sorted(tokens, key=lambda token: (-token.heads, -token.largest))


def mass_per_key(found: Importance) -> np.ndarray:
    """Mean share of all rows of all heads that goes to each key, [N]; with the learned sinks it adds up to 1."""
    return found.mass.sum((0, 1)) / (found.queries * max(found.heads, 1))


def sink_heads(found: Importance, epsilon: float = EPSILON) -> np.ndarray:
    """Heads that are called sink heads: the importance of key 0 is above epsilon. bool [L, H]."""
    return np.nan_to_num(found.first, nan=-1.0) > epsilon


def main_sink(found: Importance, sinks: np.ndarray) -> int:
    """The key that is a sink of most heads; key 0 where nothing is a sink."""
    counts = sinks.sum((0, 1))
    return int(counts.argmax()) if counts.any() else 0

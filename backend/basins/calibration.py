"""Attention to a document apart from its place: against a dummy there (B-04), against a null query (R-02)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backend.basins.slots import Slots

TEMPERATURE = 5e-5  # of the redistribution: calibrated shares differ by 1e-4 to 1e-3
DUMMY = (
    "This page was left without any content on purpose. There is nothing to learn from it, and nothing on it answers a "
    "question. "
)
NULL_QUERY = "N/A"
DROPPED = 2.0  # tokens this many standard deviations below the mean of their part are dropped


def calibrated(attention: Sequence[float], dummy: Sequence[float]) -> np.ndarray:
    """What a document gets beyond what a dummy gets at its place: [K] both, shares per token."""
    return np.asarray(attention, np.float64) - np.asarray(dummy, np.float64)


def redistribution(scores: Sequence[float], temperature: float = TEMPERATURE) -> np.ndarray:
    """Shares of what the documents get together: softmax(scores / temperature), [K]. Undefined scores get nothing."""
    values = np.asarray(scores, np.float64) / temperature
    values = np.where(np.isfinite(values), values, -np.inf)
    if not np.isfinite(values).any():
        return np.full(len(values), 1 / max(len(values), 1))
    shares = np.exp(values - values.max())
    return shares / shares.sum()


def dummy_ids(filler: Sequence[int], length: int) -> list[int]:
    """A neutral text of exactly so many tokens: the filler again and again, cut off."""
    return (list(filler) * (length // max(len(filler), 1) + 1))[:length]


def with_dummies(token_ids: Sequence[int], slots: Slots, filler: Sequence[int], which: Sequence[int]) -> list[int]:
    """The prompt with chosen parts replaced by dummies of the same length: every other token stays where it is."""
    changed = list(token_ids)
    for number in which:
        part = slots.parts[number]
        changed[part.start : part.stop] = dummy_ids(filler, part.length)
    return changed


def null_calibrated(question: np.ndarray, null: np.ndarray, slots: Slots) -> np.ndarray:
    """R-02 from weights per token [N] under the question and under a null query: [K], sums over each part.

    Tokens DROPPED standard deviations below the mean of their part are left out.
    """
    difference = np.asarray(question, np.float64) - np.asarray(null, np.float64)
    found = []
    for part in slots.parts:
        own = difference[part.start : part.stop]
        own = own[np.isfinite(own)]
        kept = own[own > own.mean() - DROPPED * own.std()] if len(own) and own.std() > 0 else own
        found.append(float(kept.sum()) if len(own) else np.nan)
    return np.array(found)

"""The detected sinks of one head (K-02), read from the table of its keys. It needs no model and imports none."""

from __future__ import annotations

from backend.store import Analysis

THETA = 0.1  # a key is a sink of a head above this importance
LEAST_ROWS = 16  # and only where at least so many rows see it: the last keys are seen by few


def sinks_of(
    analysis: Analysis, layer: int, head: int, kind: str = "self", theta: float = THETA, least_rows: int = LEAST_ROWS
) -> tuple[int, ...]:
    """The detected sinks of a head, strongest first."""
    table = analysis.sql(
        "SELECT key FROM keys WHERE kind = ? AND layer = ? AND head = ? AND received_mean > ? AND visible_rows >= ? "
        "ORDER BY received_mean DESC, key",
        [kind, layer, head, theta, least_rows],
    )
    return tuple(table["key"].to_pylist())

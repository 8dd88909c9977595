"""What the basins read of a stored analysis."""

from __future__ import annotations

import numpy as np

from backend.sinks.detection import LEAST_ROWS, THETA
from backend.store import Analysis


def stored_sinks(analysis: Analysis, kind: str = "self") -> dict[tuple[int, int], tuple[int, ...]]:
    """(layer, head) -> its detected sinks (K-02), for every head of one kind of attention, in one reading."""
    table = analysis.keys(kind=kind)
    layer, head, key, rows = (table[name].to_numpy() for name in ("layer", "head", "key", "visible_rows"))
    mean = np.nan_to_num(table["received_mean"].to_numpy(zero_copy_only=False).astype(float))
    hit = np.flatnonzero((mean > THETA) & (rows >= LEAST_ROWS))
    found: dict[tuple[int, int], list[int]] = {(i.layer, h): [] for i in analysis.layers(kind) for h in range(i.heads)}
    for at in hit:
        found[int(layer[at]), int(head[at])].append(int(key[at]))
    return {place: tuple(sorted(keys)) for place, keys in found.items()}

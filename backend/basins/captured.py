"""What each part gets while the model runs: from a captured layer, without keeping any map."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from backend.basins.basin import part_mass
from backend.basins.received import received
from backend.basins.slots import Slots
from backend.sinks.detection import LEAST_ROWS, THETA
from backend.types import LayerCapture
from kernels.measures import MeasureRequest
from kernels.window import visible, weights

SINKS_REQUEST = MeasureRequest(rows=False, keys=True, distances=False, pooled=None, sampled=0)
Sinks = list[tuple[int, ...]]  # of every head


def layer_sinks(layer: LayerCapture) -> Sinks:
    """The detected sinks of every head (K-02), from a pass with SINKS_REQUEST over the whole prompt."""
    total, rows = (layer.measures[name][0].double().cpu().numpy() for name in ("received_sum", "visible_rows"))
    hit = (total / np.maximum(rows, 1) > THETA) & (rows >= LEAST_ROWS)
    return [tuple(np.flatnonzero(head).tolist()) for head in hit]


def layer_rows(layer: LayerCapture, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """Weights and visible cells [H, rows, N] of the rows at these positions of the whole text."""
    n_query, n_key = layer.query.shape[2], layer.key.shape[2]
    before = n_key - n_query  # rows that an earlier pass read
    window = slice(rows.start - before, rows.stop - before), slice(0, n_key)
    found = weights(layer.query, layer.key, layer.score, layer.lse, *window)[0]
    seen = visible(layer.score, n_query, n_key, *window)[0].expand(found.shape)
    return numpy(found), numpy(seen)


def numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def part_shares(
    found: np.ndarray, seen: np.ndarray, slots: Slots, sinks: Sinks | None
) -> tuple[np.ndarray, np.ndarray]:
    """Share per token of every part, [H, K], and that of uniform attention; sink-free where sinks are given."""
    own, uniform = [], []
    for head in range(len(found)):
        got = received(found[head], seen[head], None if sinks is None else sinks[head])
        for values, kept in ((got.weight, own), (got.uniform, uniform)):
            kept.append([float(part_mass(values[p.start : p.stop], True)) for p in slots.parts])
    return np.array(own), np.array(uniform)

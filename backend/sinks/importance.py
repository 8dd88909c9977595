"""Importance of every key for every head (K-01): the mean weight it gets from the rows that see it.

A key that a row cannot see (a window, a mask) is in no mean: it is out of sight, not weak.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch

from backend.baselines import uniform_measures
from backend.run_layers import heads_apart, visibility
from backend.store import Analysis


@dataclass(frozen=True, eq=False)
class Importance:
    """Of one kind of attention: L layers in the model's order, H heads (the most of any layer), N keys."""

    layers: tuple[int, ...]  # the model's own numbers
    values: np.ndarray  # [L, H, N] importance; NaN where no row sees the key, or the layer has no such head
    rows: np.ndarray  # int64 [L, H, N] rows that see the key
    mass: np.ndarray  # [L, H, N] weight received from all rows together
    queries: int  # rows of the map
    learned: np.ndarray  # [L, H] mean mass on the learned sink; 0 without one
    uniform: np.ndarray  # [L, N] importance under uniform attention over the visible keys, mean over heads

    @property
    def first(self) -> np.ndarray:
        """Importance of key 0, [L, H]: the usual measure of an attention sink."""
        return self.values[:, :, 0]

    @property
    def heads(self) -> int:
        """Heads there are, over all layers."""
        return int(self.there.sum())

    @property
    def there(self) -> np.ndarray:
        """Which heads exist, bool [L, H]."""
        return (self.rows > 0).any(-1)


def importance(analysis: Analysis, kind: str = "self") -> Importance:
    """From the tables `keys` and `rows` of an analysis."""
    layers = analysis.layers(kind)
    shape = (len(layers), max(layer.heads for layer in layers))
    table = analysis.keys(kind=kind)
    n_keys = int(np.max(table["key"].to_numpy())) + 1
    place = places(table, [layer.layer for layer in layers], "key")
    rows, mass = np.zeros((*shape, n_keys), np.int64), np.full((*shape, n_keys), np.nan)
    rows[place] = table["visible_rows"].to_numpy()
    mass[place] = table["received_sum"].to_numpy()
    values = np.divide(mass, rows, out=np.full(mass.shape, np.nan), where=rows > 0)
    found = analysis.sql(
        "SELECT layer, head, max(query) + 1 AS queries, coalesce(avg(learned_sink_mass), 0) AS learned FROM rows "
        "WHERE kind = ? GROUP BY layer, head",
        [kind],
    )
    learned = np.full(shape, np.nan)
    learned[places(found, [layer.layer for layer in layers])] = found["learned"].to_numpy()
    queries = int(np.max(found["queries"].to_numpy()))
    return Importance(
        layers=tuple(layer.layer for layer in layers),
        values=values,
        rows=rows,
        mass=np.where(rows > 0, mass, 0.0),
        queries=queries,
        learned=learned,
        uniform=uniform_importance(analysis, kind, queries, n_keys),
    )


def uniform_importance(analysis: Analysis, kind: str, n_query: int, n_key: int) -> np.ndarray:
    """[L, N]: what every key would get if attention were uniform over the visible keys; NaN where no row sees it."""
    done: dict[tuple, np.ndarray] = {}
    found = []
    for info in analysis.layers(kind):
        score = analysis.score(info.layer, kind)
        same = visibility(score, info, n_query, n_key)
        if same not in done or same is None:
            measures = uniform_measures(score, n_query, n_key, heads=heads_apart(score))
            done[same] = mean_over_heads(measures["received_sum"], measures["visible_rows"])
        found.append(done[same])
    return np.stack(found)


def mean_over_heads(received: torch.Tensor, rows: torch.Tensor) -> np.ndarray:
    """Importance [N] of [H, N] sums and counts."""
    received, rows = received.double().numpy(), rows.numpy()
    values = np.divide(received, rows, out=np.full(received.shape, np.nan), where=rows > 0)
    seen = ~np.isnan(values)
    return np.divide(
        np.where(seen, values, 0.0).sum(0), seen.sum(0), out=np.full(values.shape[1], np.nan), where=seen.any(0)
    )


def places(table: pa.Table, layers: list[int], *more: str) -> tuple[np.ndarray, ...]:
    """Indices of the rows of a table into an array [L, H, ...]; layers have the model's own numbers."""
    order = np.full(max(layers) + 1, -1)
    order[layers] = np.arange(len(layers))
    columns = [table[name].to_numpy() for name in ("layer", "head", *more)]
    return (order[columns[0]], *columns[1:])

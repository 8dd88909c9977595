"""The view without sinks (K-05): every row's mass on its head's sinks is taken out, and what is left adds up to 1.

    A'_ij = A_ij / (1 - mass of row i on sinks), for keys j that are no sinks

That is the map of a model whose softmax cannot see the sinks, so the rule of the layer with these keys hidden gives it
exactly: windows, statistics and bars need nothing else. A learned sink is a sink too. A row that had less than 1e-6
left has no such view: its values are NaN, it is in no mean and no sum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from backend import statistics
from backend.detected import LEAST_ROWS, THETA, sinks_of
from backend.map_sizes import SIDES
from backend.sinks.detection import NONE_LEFT
from backend.sinks.kept import KeptLayer, hiding, kept_layer
from backend.statistics.statistic import Measures
from backend.store import Analysis
from backend.types import LayerInfo
from kernels.api import attend
from kernels.measures import NOTHING, MeasureRequest
from kernels.score import ScoreSpec, row_bias_groups


def without_sinks(weights: np.ndarray, visible: np.ndarray, sinks: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Whole rows of a map without the sinks: weights and visible cells, [rows, Nk] both.

    weights: whole rows, so that their mass on the sinks is known; the sinks are keys of these columns. Rows with less
    than 1e-6 left are NaN and their cells invisible.
    """
    seen = visible.copy()
    seen[:, list(sinks)] = False
    kept = np.where(seen, weights, 0.0).astype(np.float64)
    left = kept.sum(-1, keepdims=True)
    gone = left[:, 0] < NONE_LEFT
    shares = np.divide(kept, left, out=np.full(kept.shape, np.nan), where=left >= NONE_LEFT)
    return shares, seen & ~gone[:, None]


def sink_free_rows(
    analysis: Analysis,
    layer: int,
    head: int,
    rows: slice,
    kind: str = "self",
    theta: float = THETA,
    least_rows: int = LEAST_ROWS,
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Rows of one head without its sinks: weights, visible cells and the sinks that were taken out."""
    sinks = sinks_of(analysis, layer, head, kind, theta, least_rows)
    weights = analysis.map(layer, head, rows, None, kind=kind)
    seen = analysis.visible(layer, head, rows, None, kind=kind)
    return *without_sinks(weights, seen, sinks), sinks


def sink_free_score(score: ScoreSpec, sinks: list[tuple[int, ...]], n_key: int) -> ScoreSpec:
    """The rule of a layer without the sinks of each of its heads, learned ones included."""
    hidden = torch.zeros(len(sinks), n_key, dtype=torch.bool)
    for place, keys in enumerate(sinks):
        hidden[place, list(keys)] = True
    return replace(hiding(score, hidden), sink=None)


def kept_score(kept: KeptLayer, sinks: list[tuple[int, ...]]) -> ScoreSpec:
    """The rule of kept heads without their sinks, in which a row with less than 1e-6 left sees nothing."""
    score = sink_free_score(kept.score, sinks, kept.key.shape[2])
    nothing = torch.zeros(*kept.key.shape[:3], 1)
    lse = attend(kept.query, kept.key, nothing, score, NOTHING).lse.double()
    gone = (torch.exp(lse - kept.lse.double()) < NONE_LEFT) & (lse > -torch.inf)  # at -inf nothing is seen anyway
    return hiding_rows(score, gone) if gone.any() else score


def hiding_rows(score: ScoreSpec, hidden: torch.Tensor) -> ScoreSpec:
    """The rule with nothing in sight of some rows: hidden bool [1, h, Nq]. Keys in no group of biases get their own."""
    n_key = score.key_bias.shape[-1]
    bias, group = torch.zeros(*hidden.shape, 0), torch.full((n_key,), -1)
    if score.row_bias is not None:
        bias, group = row_bias_groups(score)
    bias = torch.cat([bias.expand(*hidden.shape, -1).float(), torch.zeros(*hidden.shape, 1)], -1)
    group = torch.where(group < 0, bias.shape[-1] - 1, group)
    return replace(score, row_bias=bias.masked_fill(hidden[..., None], -torch.inf), row_bias_keys=group)


def sink_free_statistics(
    analysis: Analysis, layer: int, kind: str = "self", theta: float = THETA, least_rows: int = LEAST_ROWS
) -> dict[str, np.ndarray]:
    """Every statistic of one layer without the sinks: name -> float64 [H], NaN where undefined or not kept exactly."""
    info = next(one for one in analysis.layers(kind) if one.layer == layer)
    found = {name: np.full(info.heads, np.nan) for name in statistics.all()}
    kept = kept_layer(analysis, layer, kind)
    if kept is None:
        return found
    measures = sink_free_measures(analysis, kept, kind, theta, least_rows)
    for name, statistic in statistics.all().items():
        found[name][list(kept.heads)] = statistic.compute(measures, replace_heads(info, len(kept.heads)))
    return found


def sink_free_measures(analysis: Analysis, kept: KeptLayer, kind: str, theta: float, least_rows: int) -> Measures:
    """The measures of the kept heads of a layer without the sinks; rows with nothing left are in none of them."""
    sinks = [sinks_of(analysis, kept.info.layer, head, kind, theta, least_rows) for head in kept.heads]
    request = MeasureRequest(pooled=None, sampled=0, tokens=key_ids(analysis, kept, kind))
    nothing = torch.zeros(*kept.key.shape[:3], 1)
    measures = attend(kept.query, kept.key, nothing, kept_score(kept, sinks), request).measures
    return {name: values[0] for name, values in measures.items() if values.ndim > 1}


def key_ids(analysis: Analysis, kept: KeptLayer, kind: str) -> torch.Tensor | None:
    """The token ids of the keys, [1, Nk]; None where rows and keys are two texts, or positions are no tokens."""
    rows, keys = SIDES[kind]
    ids = [token.token_id for token in analysis.tokens_list() if token.side == keys]
    return torch.tensor([ids]) if rows == keys and len(ids) == kept.key.shape[2] else None


def replace_heads(info: LayerInfo, heads: int) -> LayerInfo:
    """The layer as if it had only the kept heads."""
    return replace(info, heads=heads)

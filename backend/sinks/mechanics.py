"""Why a key is a sink (K-04): its norms, its angle to the queries, and how far its score stands above all others.

Norms are compared with the median of the other keys. Angles and scores need the queries and keys of a head; they are of
the captured ones, after rotary embedding and norms, as the softmax sees them. The learned sink, where there is one, is
among the others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from backend.baselines import uniform_score
from backend.sinks.importance import Importance
from backend.sinks.kept import KeptLayer, hiding, kept_layer, visible_counts
from backend.sinks.value_weighted import norms_of
from backend.store import Analysis
from kernels.api import attend
from kernels.measures import NOTHING
from kernels.window import scores, visible

NORMS = ("key_norm", "value_norm", "output_norm")


@dataclass(frozen=True, eq=False)
class Mechanics:
    """Of one key, in every head: [L, H], NaN where it is not defined or was not kept."""

    key_norm: np.ndarray  # norm of the key divided by the median of the other keys
    value_norm: np.ndarray  # the same of the values
    output_norm: np.ndarray  # the same of W_O v, what the value adds to the residual stream
    hidden_norm: np.ndarray  # [L] the same of the residual stream before the layer
    cosine: np.ndarray  # mean over rows of cos(q_i, k) with the key
    other_cosine: np.ndarray  # mean over rows of the mean over the other visible keys
    gap: np.ndarray  # mean over rows of the key's score minus ln(sum of exp(score) of all others), nats


def mechanics(analysis: Analysis, found: Importance, key: int, kind: str = "self") -> Mechanics:
    """Over the rows that see the key and at least one other."""
    shape = found.rows.shape[:2]
    grids = {name: ratio_to_others(norms_of(analysis, found, kind, name), key) for name in NORMS}
    angles = {name: np.full(shape, np.nan) for name in ("cosine", "other_cosine", "gap")}
    for place, layer in enumerate(found.layers):
        kept = kept_layer(analysis, layer, kind)
        if kept is None:
            continue
        for name, values in angles_of(kept, key).items():
            angles[name][place, list(kept.heads)] = values.numpy()
    return Mechanics(**grids, hidden_norm=hidden_ratio(analysis, found, key, kind), **angles)


def ratio_to_others(norms: np.ndarray, key: int) -> np.ndarray:
    """norms[..., key] divided by the median of the other keys: [..., N] -> [...]; NaN where there is no other."""
    others = np.delete(norms, key, -1)
    middle = np.full(others.shape[:-1], np.nan)
    known = np.isfinite(others).any(-1)
    if known.any():
        middle[known] = np.nanmedian(others[known], -1)
    return np.divide(norms[..., key], middle, out=np.full(middle.shape, np.nan), where=np.nan_to_num(middle) > 0)


def hidden_ratio(analysis: Analysis, found: Importance, key: int, kind: str) -> np.ndarray:
    """[L]; NaN for encoder-decoders and for layers whose residual stream was not stored."""
    values = np.full(len(found.layers), np.nan)
    if kind != "self":
        return values
    norms = hidden_norms(analysis, found)
    return ratio_to_others(norms, key)


def hidden_norms(analysis: Analysis, found: Importance, column: str = "norm") -> np.ndarray:
    """A column of the table `hidden` of the captured layers: [L, N], NaN where it was not stored."""
    grid = np.full((len(found.layers), found.rows.shape[2]), np.nan)
    table = analysis.hidden()
    places = {layer: place for place, layer in enumerate(found.layers)}
    layers, positions, values = (table[name].to_numpy(zero_copy_only=False) for name in ("layer", "position", column))
    known = np.isin(layers, list(places)) & (positions < grid.shape[1])
    grid[[places[layer] for layer in layers[known].tolist()], positions[known]] = values[known]
    return grid


def angles_of(kept: KeptLayer, key: int) -> dict[str, Tensor]:
    """cosine, other_cosine and gap of the heads of one layer: float64 [h]."""
    n_query, n_key = kept.query.shape[2], kept.key.shape[2]
    seen = visible_counts(kept)
    sees_key = visible(kept.score, n_query, n_key, slice(0, n_query), slice(key, key + 1))[0, ..., 0]
    rows = (sees_key & (seen >= 2)).expand(len(kept.heads), n_query)
    unit_query, unit_key = (torch.nn.functional.normalize(part, dim=-1) for part in (kept.query, kept.key))
    own_key = spread(unit_key[:, :, key : key + 1], kept)
    cosine = (unit_query * own_key).sum(-1)[0].double()
    mean_key = attend(
        torch.zeros_like(kept.query), torch.zeros_like(kept.key), unit_key, flat(kept), NOTHING
    ).output  # the mean of the visible keys of every row
    every = (unit_query * mean_key).sum(-1)[0].double()
    others = (every * seen - cosine) / (seen - 1).clamp(min=1)
    return {"cosine": mean(cosine, rows), "other_cosine": mean(others, rows), "gap": mean(gaps(kept, key), rows)}


def gaps(kept: KeptLayer, key: int) -> Tensor:
    """Score of the key minus the log-sum-exp of everything else a row sees: float64 [h, Nq]."""
    n_query, n_key = kept.query.shape[2], kept.key.shape[2]
    own = scores(kept.query, kept.key, kept.score, slice(0, n_query), slice(key, key + 1))[0, :, :, 0].double()
    hidden = torch.zeros(len(kept.heads), n_key, dtype=torch.bool)
    hidden[:, key] = True
    nothing = torch.zeros(*kept.key.shape[:3], 1)
    rest = attend(kept.query, kept.key, nothing, hiding(kept.score, hidden), NOTHING).lse[0].double()
    return own - rest


def flat(kept: KeptLayer):
    """The rule under which attention is uniform over the visible keys."""
    return uniform_score(kept.score, len(kept.heads), "cpu")


def spread(part: Tensor, kept: KeptLayer) -> Tensor:
    """[1, Hk, ...] -> [1, h, ...]: what each query head reads."""
    return part.repeat_interleave(len(kept.heads) // part.shape[1], 1)


def mean(values: Tensor, rows: Tensor) -> Tensor:
    """Over the rows that count, [h, Nq] -> [h]; NaN where there is none."""
    return torch.where(rows, values, 0.0).sum(-1) / rows.sum(-1).double()


def as_columns(found: Mechanics) -> dict[str, np.ndarray]:
    """name -> [L, H], the value per layer spread over the heads."""
    shape = found.key_norm.shape
    return {
        field.name: np.broadcast_to(value if value.ndim == 2 else value[:, None], shape)
        for field in fields(found)
        for value in [getattr(found, field.name)]
    }

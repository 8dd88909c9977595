"""The kept queries and keys of a layer as tensors that the kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from backend.store import Analysis
from backend.types import LayerInfo
from kernels.score import ScoreSpec
from kernels.window import visible

HEAD_AXIS = {"bias_by_distance": 0, "temperature": 0, "sink": 0, "key_bias": 1, "row_bias": 1, "bias": 1, "mask": 1}


@dataclass(frozen=True, eq=False)
class KeptLayer:
    """The heads of one layer whose exact maps can be computed. Dense layers keep weights and have none of this."""

    info: LayerInfo
    heads: tuple[int, ...]  # the query heads, ascending
    query: Tensor  # [1, h, Nq, D]
    key: Tensor  # [1, h or Hk, Nk, D]: the layer's own key heads where every query head was kept
    lse: Tensor  # [1, h, Nq]
    score: ScoreSpec  # the rule of these heads


def kept_layer(
    analysis: Analysis, layer: int, kind: str = "self", only: Sequence[int] | None = None
) -> KeptLayer | None:
    """None where no head of the layer (or none of `only`) has its queries and keys in the file."""
    info = next(one for one in analysis.layers(kind) if one.layer == layer)
    exact = analysis.exact_heads(layer, kind)
    heads = tuple(head for head in exact if only is None or head in only)
    parts = [analysis.kept(layer, head, kind=kind) for head in heads]
    if not parts or parts[0].query is None:
        return None
    shared = info.heads // info.key_heads
    whole = heads == tuple(range(info.heads))
    return KeptLayer(
        info=info,
        heads=heads,
        query=torch.cat([part.query for part in parts], 1),
        key=torch.cat([part.key for part in (parts[::shared] if whole else parts)], 1),
        lse=torch.cat([part.lse for part in parts], 1),
        score=score_of(analysis.score(layer, kind), heads),
    )


def score_of(score: ScoreSpec, heads: Sequence[int]) -> ScoreSpec:
    """The rule of some heads of a layer."""
    cut = {}
    for field in fields(score):
        value = getattr(score, field.name)
        axis = HEAD_AXIS.get(field.name)
        if isinstance(value, Tensor) and axis is not None and value.shape[axis] > 1:
            cut[field.name] = value.index_select(axis, torch.tensor(heads))
    return replace(score, **cut)


def hiding(score: ScoreSpec, hidden: Tensor) -> ScoreSpec:
    """The rule with some keys out of sight of every row: hidden bool [h, Nk]."""
    bias = torch.zeros(hidden.shape, dtype=torch.float32).masked_fill(hidden, -torch.inf)[None]
    return replace(score, key_bias=bias if score.key_bias is None else score.key_bias + bias)


def visible_counts(kept: KeptLayer) -> Tensor:
    """How many keys each row sees: int64 [1 or h, Nq]."""
    n_query, n_key = kept.query.shape[2], kept.key.shape[2]
    parts = [
        visible(kept.score, n_query, n_key, slice(start, min(start + 512, n_query)), slice(0, n_key))[0].sum(-1)
        for start in range(0, n_query, 512)
    ]
    return torch.cat(parts, -1)

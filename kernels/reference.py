"""Attention and its measures, dense and in float64: the truth that everything faster is tested against.

Nothing here is shared with the fast paths but the descriptions in score.py and measures.py. It is written to be read
beside their docstrings, and it is N x N: use it up to a few thousand tokens.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from kernels.measures import COVERAGE_SLACK, NEGLIGIBLE, SHARES, Attended, MeasureRequest, pool_edges, sampled_rows
from kernels.measures import distance_index as distance_axis
from kernels.score import ScoreSpec, first_real_key, query_positions, real_rows, row_bias_groups

HIDDEN = float("-inf")


def attend_reference(query: Tensor, key: Tensor, value: Tensor, score: ScoreSpec, request: MeasureRequest) -> Attended:
    """Output, lse and measures by their definitions. Shapes as in kernels/api.py; lse and measures are float64."""
    scores = dense_scores(query, key, score)  # [B, H, Nq, Nk]
    weights, sink_mass, lse = softmax_with_sink(scores, score.sink)
    value_of_head = repeat_heads(value.double(), query.shape[1])  # [B, H, Nk, Dv]
    output = weights @ value_of_head

    batch, _, n_query, n_key = scores.shape
    real = real_rows(score, batch, n_query, n_key, query.device)[:, None, :, None]
    cells = (scores != HIDDEN) & real  # the cells that count, padded rows left out
    measures: dict[str, Tensor] = {}
    if request.rows:
        measures |= row_measures(weights, scores, cells, sink_mass, score)
    if request.keys:
        measures |= key_measures(weights, cells)
    if request.distances:
        measures |= distance_measures(weights, cells, score)
    if request.pooled is not None:
        measures |= pooled_measures(weights, cells, request.pooled)
    if request.sampled:
        measures |= sampled_measures(weights, cells, request.sampled)
    if request.top:
        measures |= top_measures(weights, cells, request.top)
    if request.scores:
        measures |= score_measures(scores, cells, score)
    if request.groups is not None:
        measures |= group_measures(weights, cells, request.groups)
    if request.tokens is not None:
        measures |= token_measures(weights, cells, request.tokens, score)
    return Attended(output.to(query.dtype), lse, measures, "reference")


def repeat_heads(per_key_head: Tensor, heads: int) -> Tensor:
    """[B, Hk, ...] -> [B, H, ...]: query head h reads key head h // (H // Hk)."""
    return per_key_head.repeat_interleave(heads // per_key_head.shape[1], dim=1)


def relative_positions(score: ScoreSpec, n_query: int, n_key: int, device: torch.device) -> Tensor:
    """p_i - j: int64 [Nq, Nk]."""
    position = query_positions(score, n_query, n_key, device)
    return position[:, None] - torch.arange(n_key, device=device)[None, :]


def dense_visible(score: ScoreSpec, batch: int, n_query: int, n_key: int, device: torch.device) -> Tensor:
    """Cells that the rule itself lets a row see, biases aside: bool [B or 1, H or 1, Nq, Nk]."""
    distance = relative_positions(score, n_query, n_key, device)
    position = query_positions(score, n_query, n_key, device)
    key = torch.arange(n_key, device=device)
    first = first_real_key(score, batch, device)[:, None, None, None]  # [B, 1, 1, 1]

    near = torch.ones(batch, 1, n_query, n_key, dtype=torch.bool, device=device)
    if score.window is not None:
        near = near & (distance < score.window)
    if score.around is not None:
        left, right = score.around
        near = near & (distance <= left) & (-distance <= right)
    if score.chunk is not None:
        chunk_of_row = torch.div(position[:, None] - first, score.chunk, rounding_mode="floor")
        chunk_of_key = torch.div(key[None, :] - first, score.chunk, rounding_mode="floor")
        near = near & (chunk_of_row == chunk_of_key)
    visible = near | (key - first < score.keep_first)
    if score.causal:
        visible = visible & (distance >= 0)
    if score.key_padding is not None:
        visible = visible & score.key_padding.to(device)[:, None, None, :]
    if score.mask is not None:
        visible = visible & score.mask.to(device)
    return visible


def dense_scores(query: Tensor, key: Tensor, score: ScoreSpec) -> Tensor:
    """Scores after every step of the rule, hidden cells -inf: float64 [B, H, Nq, Nk]."""
    batch, heads, n_query, _ = query.shape
    n_key, device = key.shape[2], query.device
    scores = query.double() @ repeat_heads(key.double(), heads).mT * score.scale
    if score.softcap is not None:
        scores = score.softcap * torch.tanh(scores / score.softcap)
    if score.bias_by_distance is not None:
        row, column = torch.arange(n_query, device=device), torch.arange(n_key, device=device)
        scores = scores + score.bias_by_distance.double()[:, row[:, None] - column + n_key - 1]
    if score.key_bias is not None:
        scores = scores + score.key_bias.double()[:, :, None, :]
    if score.row_bias is not None:
        bias, group = row_bias_groups(score)
        scores = scores + torch.where(group >= 0, bias.double()[..., group.clamp(min=0)], 0.0)
    if score.bias is not None:
        scores = scores + score.bias.double()
    hidden = ~dense_visible(score, batch, n_query, n_key, device) | (scores == HIDDEN)
    if score.temperature is not None:
        scores = scores / score.temperature.double()[:, None, None]
    return scores.masked_fill(hidden, HIDDEN)


def softmax_with_sink(scores: Tensor, sink: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Weights [B, H, Nq, Nk] (0 where hidden), mass of the learned sink [B, H, Nq], lse [B, H, Nq]."""
    largest = scores.amax(-1)
    sink = torch.full_like(largest, HIDDEN) if sink is None else sink.double()[:, None].expand_as(largest)
    largest = torch.maximum(largest, sink)
    largest = torch.where(largest == HIDDEN, 0.0, largest)  # a row that sees nothing
    exponential, sink_part = torch.exp(scores - largest[..., None]), torch.exp(sink - largest)
    total = exponential.sum(-1) + sink_part
    divisor = torch.where(total == 0, 1.0, total)
    return exponential / divisor[..., None], sink_part / divisor, largest + torch.log(total)


def row_measures(
    weights: Tensor, scores: Tensor, cells: Tensor, sink_mass: Tensor, score: ScoreSpec
) -> dict[str, Tensor]:
    batch, _, n_query, n_key = weights.shape
    distance = relative_positions(score, n_query, n_key, weights.device)
    first = first_real_key(score, batch, weights.device)
    key = torch.arange(n_key, device=weights.device)
    count, seen = cells.sum(-1), cells.any(-1)
    outcomes = torch.cat([weights.masked_fill(~cells, 0.0), sink_mass[..., None]], dim=-1)
    best = scores.masked_fill(~cells, HIDDEN)  # by scores: weights may all be too small for a float
    lowest_best = (best == best.amax(-1, keepdim=True)).to(torch.uint8).argmax(-1)
    negligible = cells & (weights < NEGLIGIBLE / count.clamp(min=1)[..., None])
    values = {
        "entropy": -torch.special.xlogy(outcomes, outcomes).sum(-1),
        "max_weight": (weights * cells).amax(-1),
        "sum_square": outcomes.square().sum(-1),
        "mean_distance": (weights * distance.abs()).sum(-1),
        "first_mass": target_mass(weights, cells, (key == first[:, None])[:, None, None, :]),
        "self_mass": target_mass(weights, cells, distance == 0),
        "previous_mass": target_mass(weights, cells, distance == 1),
        "learned_sink_mass": sink_mass,
    }
    undefined = ~seen
    return {name: value.masked_fill(undefined, torch.nan) for name, value in values.items()} | {
        "max_key": torch.where(seen, lowest_best, -1),
        "visible_keys": count,
        "negligible": negligible.sum(-1),
    }


def target_mass(weights: Tensor, cells: Tensor, target: Tensor) -> Tensor:
    """Mass on the visible targets of each row, NaN where there is none: [B, H, Nq]."""
    hit = cells & target
    return (weights * hit).sum(-1).masked_fill(~hit.any(-1), torch.nan)


def key_measures(weights: Tensor, cells: Tensor) -> dict[str, Tensor]:
    counted = weights * cells
    rows = cells.sum(-2)
    return {
        "received_sum": counted.sum(-2),
        "received_max": counted.amax(-2).masked_fill(rows == 0, torch.nan),
        "received_square": counted.square().sum(-2),
        "visible_rows": rows,
    }


def sum_by_distance(values: Tensor, score: ScoreSpec) -> Tensor:
    """Sums over the cells at each distance: [B, H, Nq, Nk] -> [B, H, Dist]. Hidden cells must hold 0."""
    n_query, n_key = values.shape[-2:]
    length, zero = distance_axis(score.causal, n_query, n_key)
    index = (relative_positions(score, n_query, n_key, values.device) + zero).clamp(0, length - 1)
    sums = torch.zeros(*values.shape[:2], length, dtype=values.dtype, device=values.device)
    return sums.index_add_(-1, index.flatten(), values.flatten(-2))


def distance_measures(weights: Tensor, cells: Tensor, score: ScoreSpec) -> dict[str, Tensor]:
    return {
        "distance_sum": sum_by_distance(weights * cells, score),
        "distance_rows": sum_by_distance(cells.long(), score),
    }


def pooled_measures(weights: Tensor, cells: Tensor, side: int) -> dict[str, Tensor]:
    """Mean and maximum over the visible cells of every block, block by block."""
    batch, heads, n_query, n_key = weights.shape
    row_edges, key_edges = pool_edges(n_query, side).tolist(), pool_edges(n_key, side).tolist()
    mean = weights.new_full((batch, heads, len(row_edges) - 1, len(key_edges) - 1), torch.nan)
    largest = mean.clone()
    for p, (top, bottom) in enumerate(pairwise(row_edges)):
        for r, (left, right) in enumerate(pairwise(key_edges)):
            block, seen = weights[..., top:bottom, left:right], cells[..., top:bottom, left:right]
            count = seen.sum((-2, -1))
            mean[..., p, r] = (block * seen).sum((-2, -1)) / count  # 0 / 0 is the NaN that is meant
            largest[..., p, r] = (block * seen).amax((-2, -1)).masked_fill(count == 0, torch.nan)
    return {"pooled_mean": mean, "pooled_max": largest}


def sampled_measures(weights: Tensor, cells: Tensor, sampled: int) -> dict[str, Tensor]:
    rows = sampled_rows(weights.shape[-2], sampled).to(weights.device)
    ordered = (weights * cells)[..., rows, :].sort(-1, descending=True).values
    share = ordered.cumsum(-1) / ordered.sum(-1, keepdim=True)  # of the visible mass
    seen = cells[..., rows, :].any(-1)
    needed = [(share < wanted - COVERAGE_SLACK).sum(-1) + 1 for wanted in SHARES]
    return {"sampled_rows": rows, "coverage": torch.stack(needed, -1) * seen[..., None]}


def top_measures(weights: Tensor, cells: Tensor, top: int) -> dict[str, Tensor]:
    batch, heads, n_query, n_key = weights.shape
    kept = min(top, n_key)
    ordered, order = weights.masked_fill(~cells, -1.0).sort(dim=-1, descending=True, stable=True)
    absent = ordered[..., :kept] < 0
    keys = torch.full((batch, heads, n_query, top), -1, device=weights.device)
    values = weights.new_full((batch, heads, n_query, top), torch.nan)
    keys[..., :kept] = order[..., :kept].masked_fill(absent, -1)
    values[..., :kept] = ordered[..., :kept].masked_fill(absent, torch.nan)
    return {"top_keys": keys, "top_weights": values}


def score_measures(scores: Tensor, cells: Tensor, score: ScoreSpec) -> dict[str, Tensor]:
    known = scores.masked_fill(~cells, 0.0)
    count = cells.sum(-1)
    mean = known.sum(-1) / count
    deviation = (known - mean[..., None]).masked_fill(~cells, 0.0)
    return {
        "score_mean": mean,
        "score_variance": deviation.square().sum(-1) / count,
        "distance_score": sum_by_distance(known, score) / sum_by_distance(cells.double(), score),
    }


def group_measures(weights: Tensor, cells: Tensor, groups: Tensor) -> dict[str, Tensor]:
    counted = weights * cells
    number = max(int(groups.max()) + 1, 0)
    member = groups.to(weights.device)[:, None, :, None] == torch.arange(number, device=weights.device)  # [B, 1, Nk, G]
    mass = counted @ member.double()
    return {"group_mass": mass.masked_fill(~cells.any(-1)[..., None], torch.nan)}


def token_measures(weights: Tensor, cells: Tensor, tokens: Tensor, score: ScoreSpec) -> dict[str, Tensor]:
    batch, _, n_query, n_key = weights.shape
    device = weights.device
    tokens = tokens.to(device).expand(batch, n_key)
    position = query_positions(score, n_query, n_key, device)
    own = tokens[:, position.clamp(0, n_key - 1)]  # [B, Nq]
    known = ((position >= 0) & (position < n_key))[None, :, None]
    distance = relative_positions(score, n_query, n_key, device)
    same = (own[:, :, None] == tokens[:, None, :]) & known  # [B, Nq, Nk]

    real = torch.ones_like(tokens, dtype=torch.bool) if score.key_padding is None else score.key_padding.to(device)
    follows = torch.zeros_like(same)  # key j follows a token equal to the row's
    follows[:, :, 1:] = same[:, :, :-1] & (real & real.roll(-1, -1))[:, None, :-1]
    return {
        "duplicate_mass": target_mass(weights, cells, (same & (distance > 0))[:, None]),
        "induction_mass": target_mass(weights, cells, (follows & (distance >= 0))[:, None]),
    }

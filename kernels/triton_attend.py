"""Attention that measures itself, by Triton kernels: which of them a request needs, and how their parts are joined.

Pass 1 (triton_rows) always runs. Pass 2 (triton_keys) runs where something needs finished weights. Counts of visible
cells come from kernels/counts.py, which needs no weights. Padded rows and rows that see no key are taken out here.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.counts import Counts, count_cells
from kernels.measures import NEGLIGIBLE, Attended, MeasureRequest
from kernels.score import ScoreSpec
from kernels.tiles import spans_of
from kernels.triton_columns import column_pass
from kernels.triton_keys import Wanted, key_pass
from kernels.triton_launch import MOST_FEATURES, interpreted
from kernels.triton_moments import score_moments
from kernels.triton_pairs import pair_measures
from kernels.triton_rows import RowPass, row_pass
from kernels.triton_sampled import coverage, strongest
from kernels.triton_score import LN2, Rule, rule_of

GROUPS_AT_ONCE = 64  # channels of a one-hot value in one run of pass 1


def attend_triton(query: Tensor, key: Tensor, value: Tensor, score: ScoreSpec, request: MeasureRequest) -> Attended:
    """The contract of kernels/api.py, for tensors on a GPU, or on the CPU in Triton's interpreter.

    Raises ValueError for bfloat16 in the interpreter, which multiplies its bit patterns, and for heads beyond 256.
    """
    if max(query.shape[-1], value.shape[-1]) > MOST_FEATURES:
        raise ValueError(
            f"expected a head size of at most {MOST_FEATURES} for Triton, got {query.shape[-1]} for the query and "
            f'{value.shape[-1]} for the value. Ask for impl="tiled".'
        )
    if interpreted() and query.dtype == torch.bfloat16:
        raise ValueError(
            "expected float32 or float16 in Triton's interpreter, which multiplies bfloat16 wrongly; got bfloat16. "
            "Convert the tensors, or run on a GPU without TRITON_INTERPRET."
        )
    dtype = query.dtype
    if dtype == torch.float64:
        query, key, value = query.float(), key.float(), value.float()
    with torch.cuda.device_of(query):
        rule = rule_of(score, query.shape[0], query.shape[2], key.shape[2])
        rows = row_pass(query, key, value, score, rule, rows=request.rows, tokens=request.tokens)
        measures = measure(query, key, score, rule, rows, request)
    return Attended(rows.output.to(dtype), rows.lse, measures, "triton")


def measure(
    query: Tensor, key: Tensor, score: ScoreSpec, rule: Rule, rows: RowPass, request: MeasureRequest
) -> dict[str, Tensor]:
    """Everything asked for, by name."""
    batch, heads, n_query, _ = query.shape
    spans = spans_of(score, batch, n_query, key.shape[2]).to(query.device)
    counts = count_cells(score, spans, request, heads)
    visible_keys = counts.rows.expand(batch, heads, n_query)
    seen = visible_keys > 0
    bound = torch.where(seen, NEGLIGIBLE / visible_keys.clamp(min=1), 0.0)
    wanted = Wanted(request.keys, request.distances, request.pooled, bound.contiguous() if request.rows else None)
    measures = dict(rows.measures)
    if request.rows:
        measures |= pair_measures(query, key, rule, rows)
        measures.setdefault("learned_sink_mass", torch.zeros_like(rows.lse))
    if request.scores:
        measures |= score_moments(query, key, rule)
    measures = {name: values.masked_fill(~seen, torch.nan) for name, values in measures.items() if name != "max_key"}
    if request.rows:
        largest = rows.measures["max_key"].long().masked_fill(~seen, -1)
        measures |= {"max_key": largest, "visible_keys": visible_keys}
    if request.groups is not None:
        measures["group_mass"] = group_mass(query, key, score, rule, request.groups, seen)
    # In units of log 2; inf for rows that add nothing.
    lse = rows.shift - torch.log2(rows.share * spans.real[:, None])
    if wanted.but_keys:
        measures |= finished(key_pass(query, key, score, rule, lse, wanted), counts, request)
    elif wanted.keys:
        measures |= finished(column_pass(query, key, rule, lse), counts, request)
    if request.scores:
        sums = key_pass(query, key, score, rule, lse, Wanted(distances=True, scores=True))
        measures["distance_score"] = sums["distance_sum"] * LN2.value / counts.distances
    if request.sampled:
        measures |= coverage(query, key, rule, rows, seen, request.sampled)
    if request.top:
        measures |= strongest(query, key, rule, rows, seen, request.top)
    return measures


def finished(sums: dict[str, Tensor], counts: Counts, request: MeasureRequest) -> dict[str, Tensor]:
    """Measures from the sums of pass 2 and the counts of visible cells."""
    measures = {}
    if request.rows:
        measures["negligible"] = sums["negligible"]
    if request.keys:
        largest = sums["received_max"]
        measures |= {"received_sum": sums["received_sum"], "received_square": sums["received_square"]}
        measures["received_max"] = largest.masked_fill(counts.keys == 0, torch.nan)
        measures["visible_rows"] = counts.keys.expand(largest.shape)
    if request.distances:
        measures["distance_sum"] = sums["distance_sum"]
        measures["distance_rows"] = counts.distances.expand(sums["distance_sum"].shape)
    if request.pooled is not None:
        measures["pooled_mean"] = sums["pooled_sum"] / counts.blocks  # 0 / 0 is the NaN that is meant
        measures["pooled_max"] = sums["pooled_max"].masked_fill(counts.blocks == 0, torch.nan)
    return measures


def group_mass(query: Tensor, key: Tensor, score: ScoreSpec, rule: Rule, groups: Tensor, seen: Tensor) -> Tensor:
    """Mass per row and group, by pass 1 with a one-hot value that all heads share: [B, H, Nq, G].

    The value is float32 whatever the query is: the weights are then not rounded before they are summed.
    """
    batch, key_heads, n_key = key.shape[:3]
    number = max(int(groups.max()) + 1, 0)
    masses = [query.new_zeros(*query.shape[:3], 0, dtype=torch.float32)]
    for start in range(0, number, GROUPS_AT_ONCE):
        some = torch.arange(start, min(start + GROUPS_AT_ONCE, number), device=query.device)
        member = (groups[:, None, :, None] == some).float().expand(batch, key_heads, n_key, len(some))
        masses.append(row_pass(query, key, member, score, rule, rows=False, tokens=None).output)
    return torch.cat(masses, -1).masked_fill(~seen[..., None], torch.nan)

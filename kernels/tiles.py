"""What the tiled paths share: which cells of a map a row may see, and the scores of a rectangle of the map.

Most rules let a row see one run of keys, `low <= key < high`. Those spans cost O(N), and everything outside them is
never computed. Whatever a span cannot say (a boolean mask, holes in the padding, first keys kept outside a window,
biases of -inf) is said cell by cell for the rectangle at hand: the spans are then `masked`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.score import ScoreSpec, first_real_key, query_positions, real_rows, row_bias_groups

HIDDEN = float("-inf")
FLOAT64_FROM = 1e3  # scores beyond this are recomputed in float64: there float32 is off by more than 1e-4


@dataclass(frozen=True, eq=False)
class Spans:
    """The keys that each row may see. All tensors on one device, the batch axis of length B."""

    low: Tensor  # int64 [B, Nq]
    high: Tensor  # int64 [B, Nq], high >= low
    near_low: Tensor  # the same before keep_first opened the first keys
    near_high: Tensor
    first: Tensor  # int64 [B], the first real key
    position: Tensor  # int64 [Nq], p_i
    real: Tensor  # bool [B, Nq], False = padded row
    n_key: int
    gaps: bool  # keep_first leaves hidden cells between the first keys and the window
    holes: bool  # the padding has holes
    masked: bool  # a cell inside a span may be hidden

    def to(self, device: torch.device | str) -> Spans:
        moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in vars(self).items()}
        return Spans(**moved)

    def of_rows(self, rows: Tensor) -> Spans:
        """Those of some rows, int64 [R], as if there were no others."""
        by_row = ("low", "high", "near_low", "near_high", "real")
        picked = {name: getattr(self, name)[:, rows] for name in by_row} | {"position": self.position[rows]}
        return Spans(**{**vars(self), **picked})


def spans_of(score: ScoreSpec, batch: int, n_query: int, n_key: int) -> Spans:
    """The visible run of keys of every row, on the CPU."""
    position = query_positions(score, n_query, n_key)
    first = first_real_key(score, batch)
    p, f = position[None, :], first[:, None]
    low, high = torch.zeros(batch, n_query, dtype=torch.int64), torch.full((batch, n_query), n_key)
    if score.window is not None:
        low = torch.maximum(low, p - score.window + 1)
    if score.around is not None:
        low = torch.maximum(low, p - score.around[0])
        high = torch.minimum(high, p + score.around[1] + 1)
    if score.chunk is not None:
        start = f + torch.div(p - f, score.chunk, rounding_mode="floor") * score.chunk
        low, high = torch.maximum(low, start), torch.minimum(high, start + score.chunk)
    holes = False
    bottom, top = torch.zeros_like(f), torch.full_like(f, n_key)
    if score.key_padding is not None:
        padding = score.key_padding.cpu()
        bottom = f
        top = (n_key - padding.flip(-1).to(torch.uint8).argmax(-1))[:, None] * padding.any(-1, keepdim=True)
        holes = bool(((top - bottom).clamp(min=0).squeeze(-1) != padding.sum(-1)).any())
    if score.causal:
        top = torch.minimum(top, p + 1)
    low, high = torch.maximum(low, bottom), torch.minimum(high, top)
    low, high = low.clamp(0, n_key), torch.maximum(high, low.clamp(0, n_key))
    near_low, near_high, gaps = low, high, False
    if score.keep_first:
        kept_high = torch.maximum(torch.minimum(f + score.keep_first, top.expand_as(high)), bottom)
        kept = kept_high > bottom
        none_near = near_high <= near_low
        low = torch.where(kept, bottom.expand_as(low), near_low)
        high = torch.where(kept & (none_near | (kept_high > near_high)), kept_high, near_high)
        gaps = bool((kept & ~none_near & (kept_high < near_low)).any())
    masked = gaps or holes or score.mask is not None or hides_by_bias(score)
    real = real_rows(score, batch, n_query, n_key).cpu()
    return Spans(low, high, near_low, near_high, first, position, real, n_key, gaps, holes, masked)


def hides_by_bias(score: ScoreSpec) -> bool:
    """Whether some bias is -inf."""
    biases = (score.bias_by_distance, score.key_bias, score.row_bias, score.bias)
    return any(bool((bias == HIDDEN).any()) for bias in biases if bias is not None)


def distance_bias(score: ScoreSpec, heads: slice, rows: slice, columns: slice, n_key: int) -> Tensor:
    """The part of bias_by_distance that lies over a rectangle: [h, R, C], a copy."""
    n_rows, n_columns = rows.stop - rows.start, columns.stop - columns.start
    lowest = rows.start - (columns.stop - 1) + n_key - 1  # index of the rectangle's smallest row - key
    band = score.bias_by_distance[heads, lowest : lowest + n_rows + n_columns - 1]
    return band.unfold(-1, n_columns, 1).flip(-1)  # row r starts r further; keys ascend as the index falls


def visible_cells(
    score: ScoreSpec, spans: Spans, batch: slice, heads: slice, rows: slice, columns: slice, *, biases: bool
) -> Tensor:
    """Cells of a rectangle that its rows may see: bool [b, h or 1, R, C]. With `biases`, -inf hides too."""
    device = spans.low.device
    key = torch.arange(columns.start, columns.stop, device=device)
    near_low, near_high = spans.near_low[batch, None, rows, None], spans.near_high[batch, None, rows, None]
    visible = (key >= near_low) & (key < near_high)
    if score.keep_first:
        first = spans.first[batch, None, None, None]
        kept = (key >= first) & (key < first + score.keep_first)
        visible = visible | (
            kept & (key >= spans.low[batch, None, rows, None]) & (key < spans.high[batch, None, rows, None])
        )
    if spans.holes:
        visible = visible & score.key_padding[batch, None, None, columns]
    if score.mask is not None:
        visible = visible & part(score.mask, batch, heads)[..., rows, columns]
    if biases:
        if score.bias_by_distance is not None and bool((score.bias_by_distance == HIDDEN).any()):
            visible = visible & (distance_bias(score, heads, rows, columns, spans.n_key) > HIDDEN)
        if score.key_bias is not None:
            visible = visible & (part(score.key_bias, batch, heads)[..., None, columns] > HIDDEN)
        if score.row_bias is not None:
            visible = visible & (row_bias_cells(score, batch, heads, rows, columns) > HIDDEN)
        if score.bias is not None:
            visible = visible & (part(score.bias, batch, heads)[..., rows, columns] > HIDDEN)
    return visible


def part(tensor: Tensor, batch: slice, heads: slice) -> Tensor:
    """The samples and heads asked for of a tensor [B or 1, H or 1, ...]; axes of length 1 stay."""
    if tensor.shape[0] > 1:
        tensor = tensor[batch]
    return tensor[:, heads] if tensor.shape[1] > 1 else tensor


def row_bias_cells(score: ScoreSpec, batch: slice, heads: slice, rows: slice, columns: slice) -> Tensor:
    """The bias per row over a rectangle, 0 on keys without one: [b or 1, h or 1, R, C]."""
    bias, group = row_bias_groups(score)
    group = group[columns]
    return torch.where(group >= 0, part(bias, batch, heads)[:, :, rows][..., group.clamp(min=0)], 0.0)


def finish_scores(
    products: Tensor, score: ScoreSpec, spans: Spans, sample: int, heads: slice, rows: slice, columns: slice
) -> Tensor:
    """From scaled products to scores, in place: [h, R, C] of one sample. Cells that are hidden inside their span become
    -inf; those outside their span are left as they come."""
    scores, batch = products, slice(sample, sample + 1)
    if score.softcap is not None:
        scores.div_(score.softcap).tanh_().mul_(score.softcap)
    if score.bias_by_distance is not None:
        scores.add_(distance_bias(score, heads, rows, columns, spans.n_key))
    if score.key_bias is not None:
        scores.add_(part(score.key_bias, batch, heads)[0, :, None, columns])
    if score.row_bias is not None:
        scores.add_(row_bias_cells(score, batch, heads, rows, columns)[0])
    if score.bias is not None:
        scores.add_(part(score.bias, batch, heads)[0, :, rows, columns])
    if score.temperature is not None:
        hidden = scores == HIDDEN if spans.masked else None
        scores.div_(score.temperature[heads, None, None])
        if hidden is not None:  # -inf / inf is not -inf
            scores.masked_fill_(hidden, HIDDEN)
    if spans.gaps or spans.holes or score.mask is not None:
        visible = visible_cells(score, spans, batch, heads, rows, columns, biases=False)[0]
        scores.masked_fill_(~visible, HIDDEN)
    return scores

"""One strip of a map in plain torch operations: any device, and where numba is not installed.

The numba twin is kernels/sweep.py: the same sums, each cell read once instead of once per measure.
"""

from __future__ import annotations

from bisect import bisect_right

import torch
from torch import Tensor

from kernels.counts import add_diagonals
from kernels.measures import COVERAGE_SLACK, NEGLIGIBLE, SHARES
from kernels.strip import Section, Strip
from kernels.sums import Sums
from kernels.tiles import HIDDEN


class TorchSweep:
    """The sweep over the strips of one section."""

    def __init__(self, section: Section) -> None:
        self.section = section

    def ready(self, scores: Tensor, rows: slice, columns: slice) -> Strip:
        """The strip, before its scores [g, R, C] are there."""
        return self.section.strip(scores, rows, columns)

    def maxima(self, strip: Strip) -> float:
        """Hide what is outside the spans, in place, and find the largest score of each row.

        Returns the largest magnitude among these.
        """
        low, high = self.section.low[strip.rows, None], self.section.high[strip.rows, None]
        strip.scores.masked_fill_((strip.keys < low) | (strip.keys >= high), HIDDEN)
        self.largest = strip.scores.amax(-1)
        return float(self.largest.masked_fill(self.largest == HIDDEN, 0.0).abs().amax())

    def sweep(self, strip: Strip, base: Tensor) -> Tensor:
        """Turn the scores of a strip into exponentials, in place, and add to all sums. `maxima` comes first.

        base float64 [g, R] or [1, 1]: what was subtracted from the scores. Returns the divisor of each row [g, R]:
        exponential / divisor = weight.
        """
        return sweep(strip, base, self.largest, self.section.sums)


def sweep(strip: Strip, base: Tensor, largest: Tensor, sums: Sums) -> Tensor:
    scores = strip.scores  # [g, R, C]
    seen = (scores != HIDDEN) & strip.real[:, None]
    if sums.request.scores:
        add_scores(scores, base, seen, strip, sums)

    sink = torch.full_like(scores[..., 0], HIDDEN)
    if sums.score.sink is not None:
        sink = (sums.score.sink[strip.section.heads, None] - base).float().expand_as(sink)
    largest = torch.maximum(largest, sink)
    largest = torch.where(largest == HIDDEN, 0.0, largest)
    shifted = scores - largest[..., None]
    weights = torch.exp(shifted, out=scores)
    sink_shifted = sink - largest
    total = weights.sum(-1) + torch.exp(sink_shifted)
    divisor = torch.where(total == 0, 1.0, total)
    sums.lse[strip.place] = (base + largest + torch.log(total)).float()

    fraction = (weights / divisor[..., None]).masked_fill(~seen, 0.0)
    if sums.request.rows:
        add_rows(fraction, shifted, seen, sink_shifted, divisor, strip, sums)
    add_columns(fraction, strip, sums)
    if sums.request.distances:
        add_diagonals(
            sums.distances[strip.section.part, strip.section.sample, strip.section.heads],
            fraction,
            strip.distance_start,
        )
    if sums.request.tokens is not None:
        add_tokens(fraction, seen, strip, sums)
    if sums.request.top:
        add_top(fraction, seen, strip, sums)
    which = strip.section.sampled_among(strip.rows)
    if which.stop > which.start:
        add_coverage(fraction, strip, sums, which)
    return divisor


def add_scores(scores: Tensor, base: Tensor, seen: Tensor, strip: Strip, sums: Sums) -> None:
    """Moments of the scores of each row, and their sums by distance."""
    known = scores.masked_fill(~seen, 0.0)
    mean = known.sum(-1) / strip.count
    deviation = (known - mean[..., None]).masked_fill_(~seen, 0.0)
    sums.scores[0][strip.place] = (mean + base).float()
    sums.scores[1][strip.place] = deviation.square_().sum(-1) / strip.count
    known = (known + base[..., None]).float().masked_fill_(~seen, 0.0)
    add_diagonals(
        sums.distance_scores[strip.section.part, strip.section.sample, strip.section.heads], known, strip.distance_start
    )


def add_rows(
    fraction: Tensor, shifted: Tensor, seen: Tensor, sink_shifted: Tensor, divisor: Tensor, strip: Strip, sums: Sums
) -> None:
    """The row measures; rows that see nothing keep NaN, -1 and 0."""
    sink_mass = torch.exp(sink_shifted) / divisor
    log_divisor = torch.log(divisor)
    surprise = (log_divisor[..., None] - shifted).masked_fill_(~seen, 0.0)
    sink_surprise = torch.where(sink_mass > 0, log_divisor - sink_shifted, 0.0)
    best = shifted.amax(-1, keepdim=True)
    key = (shifted == best).to(torch.uint8).argmax(-1)  # the lowest of equals
    away = (strip.positions[:, None] - strip.keys).abs_()

    def at(target: Tensor) -> Tensor:
        """The weight on one key per row [R], NaN where it is not visible."""
        column = target - strip.columns.start
        known = (column >= 0) & (column < fraction.shape[-1])
        column = column.clamp(0, fraction.shape[-1] - 1).expand(fraction.shape[:2])[..., None]
        hit = seen.gather(-1, column)[..., 0] & known
        return fraction.gather(-1, column)[..., 0].masked_fill(~hit, torch.nan)

    values = (
        (fraction * surprise).sum(-1) + sink_mass * sink_surprise,
        fraction.amax(-1),
        fraction.square().sum(-1) + sink_mass.square(),
        (fraction * away).sum(-1),
        at(torch.full_like(strip.positions, strip.section.first_key)),
        at(strip.positions),
        at(strip.positions - 1),
        sink_mass,
    )
    none = (strip.count == 0).expand_as(key)
    for place, value in zip(sums.rows, values, strict=True):
        place[strip.place] = value.masked_fill(none, torch.nan)
    sums.max_key[strip.place] = (key + strip.columns.start).masked_fill(none, -1)
    threshold = NEGLIGIBLE / strip.count.clamp(min=1)
    sums.negligible[strip.place] = (seen & (fraction < threshold[..., None])).sum(-1)


def add_columns(fraction: Tensor, strip: Strip, sums: Sums) -> None:
    """Sums per key and per block of the pooled map."""
    columns = strip.columns
    if sums.request.keys:
        total, largest, square = sums.keys[
            strip.section.part, strip.section.sample, strip.section.heads, :, columns
        ].unbind(1)
        total += fraction.sum(-2)
        torch.maximum(largest, fraction.amax(-2), out=largest)
        square += fraction.square().sum(-2)
    if sums.request.pooled is None:
        return
    edges = sums.key_edges.to(fraction.device)
    blocks = torch.searchsorted(edges, strip.keys, right=True) - 1  # block of each key
    edges = sums.row_edges.tolist()
    block = bisect_right(edges, strip.rows.start) - 1
    while block < len(edges) - 1 and edges[block] < strip.rows.stop:
        top, bottom = max(edges[block], strip.rows.start), min(edges[block + 1], strip.rows.stop)
        part = fraction[:, top - strip.rows.start : bottom - strip.rows.start]
        mean, largest = sums.pooled[strip.section.sample, strip.section.heads, :, block].unbind(1)
        mean.index_add_(-1, blocks, part.sum(-2))
        largest.scatter_reduce_(-1, blocks.expand(largest.shape[0], -1), part.amax(-2), "amax")
        block += 1


def add_tokens(fraction: Tensor, seen: Tensor, strip: Strip, sums: Sums) -> None:
    """Mass on earlier equal tokens, and on keys that follow one."""
    own = sums.row_tokens[strip.section.sample, strip.rows, None]
    earlier = strip.keys < strip.positions[:, None]
    not_later = strip.keys <= strip.positions[:, None]
    same = (own == sums.key_tokens[strip.section.sample, strip.columns]) & earlier
    follows = (own == sums.previous_tokens[strip.section.sample, strip.columns]) & not_later
    for place, target in zip(sums.tokens, (same, follows), strict=True):
        hit = seen & target
        place[strip.place] = (fraction * hit).sum(-1).masked_fill_(~hit.any(-1), torch.nan)


def add_top(fraction: Tensor, seen: Tensor, strip: Strip, sums: Sums) -> None:
    """The strongest keys of each row, the lowest of equals first."""
    weight, order = fraction.masked_fill(~seen, -1.0).sort(dim=-1, descending=True, stable=True)
    kept = min(sums.request.top, weight.shape[-1])
    weight, order = weight[..., :kept], order[..., :kept] + strip.columns.start
    sums.top_keys[strip.place][..., :kept] = order.masked_fill(weight < 0, -1)
    sums.top_weights[strip.place][..., :kept] = weight.masked_fill(weight < 0, torch.nan)


def add_coverage(fraction: Tensor, strip: Strip, sums: Sums, which: slice) -> None:
    """Keys needed for each share of the visible mass, for the strip's sampled rows, sums.sampled[which]."""
    rows = (sums.sampled[which] - strip.rows.start).to(strip.scores.device)
    ordered = fraction[:, rows].sort(-1, descending=True).values
    share = ordered.cumsum(-1, dtype=torch.float64)
    share /= share[..., -1:].clone()
    needed = [(share < wanted - COVERAGE_SLACK).sum(-1) + 1 for wanted in SHARES]
    count = strip.count[:, rows]
    sums.coverage[strip.section.sample, strip.section.heads, which] = torch.stack(needed, -1) * (count > 0)[..., None]

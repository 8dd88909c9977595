"""What the tiled path collects while it sweeps over a map, and how that becomes measures."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.counts import Counts
from kernels.measures import SHARES, Attended, MeasureRequest, distance_index, pool_edges, sampled_rows
from kernels.score import ScoreSpec
from kernels.tiles import Spans

# order of the first axis of Sums.rows
ROW_SUMS = (
    "entropy",
    "max_weight",
    "sum_square",
    "mean_distance",
    "first_mass",
    "self_mass",
    "previous_mass",
    "learned_sink_mass",
)
PADDING = 256  # rows that a strip has at most on the CPU
TOKEN_SUMS = ("duplicate_mass", "induction_mass")
SCORE_SUMS = ("score_mean", "score_variance")


class Sums:
    """Every tensor that the sweeps fill, float32. A part that was not asked for has a length of 0 somewhere.

    Work is cut into `parts` runs of rows that may be swept at the same time: what is summed over rows has a leading
    axis of parts, so that the order of summation does not depend on which thread was faster.
    """

    def __init__(
        self, query: Tensor, value: Tensor, score: ScoreSpec, spans: Spans, request: MeasureRequest, parts: int
    ) -> None:
        batch, heads, n_query, _ = query.shape
        n_key, device = value.shape[2], query.device
        self.request, self.score = request, score

        def empty(*shape: int, fill: float = torch.nan) -> Tensor:
            return torch.full(shape, fill, dtype=torch.float32, device=device)

        def whole(*shape: int, fill: int = 0) -> Tensor:
            return torch.full(shape, fill, dtype=torch.int64, device=device)

        self.output = torch.zeros(batch, heads, n_query, value.shape[3], dtype=query.dtype, device=device)
        self.lse = empty(batch, heads, n_query, fill=float("-inf"))
        if score.sink is not None:
            self.lse[:] = score.sink[:, None]
        self.rows = empty(len(ROW_SUMS) * request.rows, batch, heads, n_query)
        self.max_key = whole(batch, heads, n_query * request.rows, fill=-1)
        self.negligible = whole(batch, heads, n_query * request.rows)
        self.keys = empty(parts, batch, heads, 3 * request.keys, n_key, fill=0)  # sum, max, square
        length, zero = distance_index(score.causal, n_query, n_key)
        self.n_distances, self.distance_start = length, length - 1 - zero
        # from the farthest key to the nearest; the padding is for keys to come, which no row sees
        self.distances = empty(parts, batch, heads, (length + PADDING) * request.distances, fill=0)

        side = request.pooled or 1
        self.row_edges, self.key_edges = pool_edges(n_query, side), pool_edges(n_key, side)
        shape = (len(self.row_edges) - 1, len(self.key_edges) - 1)
        self.pooled = empty(batch, heads, 2 * (request.pooled is not None), *shape, fill=0)  # sum, max
        self.sampled = sampled_rows(n_query, request.sampled)
        self.coverage = whole(batch, heads, len(self.sampled), len(SHARES))
        self.top_keys = whole(batch, heads, n_query, request.top, fill=-1)
        self.top_weights = empty(batch, heads, n_query, request.top)
        self.scores = empty(2 * request.scores, batch, heads, n_query)
        self.distance_scores = empty(parts, batch, heads, (length + PADDING) * request.scores, fill=0)
        self.n_groups = 0 if request.groups is None else max(int(request.groups.max()) + 1, 0)
        self.groups = empty(batch, heads, n_query, self.n_groups)
        self.tokens = empty(2 * (request.tokens is not None), batch, heads, n_query)
        if request.tokens is not None:
            self.row_tokens, self.key_tokens, self.previous_tokens = token_axes(request.tokens, score, spans)

    def by_distance(self, sums: Tensor) -> Tensor:
        """[parts, B, H, Dist + padding] as it was filled -> [B, H, Dist], the nearest key first."""
        return sums[..., : self.n_distances].sum(0).flip(-1)

    def finish(self, counts: Counts) -> Attended:
        """The measures that were asked for, by name."""
        heads, request = self.lse.shape[1], self.request
        measures: dict[str, Tensor] = {}

        def per_head(count: Tensor) -> Tensor:
            return count.expand(-1, heads, *count.shape[2:]).contiguous()

        if request.rows:
            measures |= dict(zip(ROW_SUMS, self.rows, strict=True))
            measures |= {
                "max_key": self.max_key,
                "visible_keys": per_head(counts.rows),
                "negligible": self.negligible,
            }
        if request.keys:
            seen = per_head(counts.keys)
            measures |= {
                "received_sum": self.keys[..., 0, :].sum(0),
                "received_max": self.keys[..., 1, :].amax(0).masked_fill(seen == 0, torch.nan),
                "received_square": self.keys[..., 2, :].sum(0),
                "visible_rows": seen,
            }
        if request.distances:
            measures |= {
                "distance_sum": self.by_distance(self.distances),
                "distance_rows": per_head(counts.distances),
            }
        if request.pooled is not None:
            seen = per_head(counts.blocks)
            measures |= {
                "pooled_mean": self.pooled[:, :, 0] / seen,  # 0 / 0 is the NaN that is meant
                "pooled_max": self.pooled[:, :, 1].masked_fill(seen == 0, torch.nan),
            }
        if request.sampled:
            measures |= {"sampled_rows": self.sampled.to(self.lse.device), "coverage": self.coverage}
        if request.top:
            measures |= {"top_keys": self.top_keys, "top_weights": self.top_weights}
        if request.scores:
            measures |= dict(zip(SCORE_SUMS, self.scores, strict=True))
            measures["distance_score"] = self.by_distance(self.distance_scores) / per_head(counts.distances)
        if request.groups is not None:
            measures["group_mass"] = self.groups
        if request.tokens is not None:
            measures |= dict(zip(TOKEN_SUMS, self.tokens, strict=True))
        return Attended(self.output, self.lse, measures, "tiled")


def token_axes(tokens: Tensor, score: ScoreSpec, spans: Spans) -> tuple[Tensor, Tensor, Tensor]:
    """The token of each row [B, Nq], of each key [B, Nk] and of the key before each key [B, Nk].

    Where there is none, two different numbers that are no token stand in, so that none equals none never holds.
    """
    no_row, no_key = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).min + 1
    batch = spans.low.shape[0]
    tokens = tokens.to(device=spans.low.device, dtype=torch.int64).expand(batch, spans.n_key)
    position = spans.position
    exists = (position >= 0) & (position < spans.n_key)
    rows = tokens[:, position.clamp(0, spans.n_key - 1)].masked_fill(~exists, no_row)
    previous = tokens.roll(1, -1)
    previous[:, 0] = no_key
    if score.key_padding is not None:
        previous.masked_fill_(~score.key_padding.roll(1, -1), no_key)
    return rows.contiguous(), tokens.contiguous(), previous

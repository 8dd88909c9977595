"""What can be measured while attention runs: names, shapes, units.

Axes: batch B, query heads H, query rows Nq, keys Nk, distances Dist, pooled side P, sampled rows S, groups G.
Conventions that hold for every measure:

* A cell that a row may not see is not a zero: it is in no sum, mean, maximum or count.
* A padded key is never visible and a padded row is no row: its row measures are NaN (counts 0, indices -1) and it adds
  nothing to the measures per key, distance or block.
* A row that sees no key has NaN measures, visible_keys 0 and output 0. A row whose target does not exist or is not
  visible (previous token, first token, duplicate, induction) has NaN there.
* The lse of a row that sees no key is -inf (with a learned sink: the sink). A padded row keeps the output and lse that
  the rule gives it (kernels/score.py); it is left out of the measures only.
* With left padding the first real key plays the part of key 0. A key follows another only where both are real.
* Sums and counts over an empty set are 0 (received_sum, distance_sum, group_mass); means and maxima over one are NaN.
  The keys missing in a row with fewer than `top` visible ones are -1 with weight NaN.
* Where a head has a learned sink the weights are not renormalised; entropy and sum_square count the sink as one more
  outcome, coverage is of the visible mass divided by 1 - learned_sink_mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SHARES = (0.5, 0.8, 0.9, 0.95, 0.99)  # the coverage shares, in the order of the last axis of `coverage`
COVERAGE_SLACK = 1e-6  # k@c = min{k: c(k) >= c - slack}
LAST_SAMPLED_ROWS = 16  # sampled rows always hold the last ones
NEGLIGIBLE = 0.01  # a weight under NEGLIGIBLE / visible_keys is negligible


@dataclass(frozen=True, eq=False)
class Attended:
    """What one call of attention gave: its output and what was measured on the way."""

    output: Tensor  # [B, H, Nq, Dv] in the query's dtype; 0 where a row sees no key
    lse: Tensor  # [B, H, Nq] float32 (reference: float64), learned sink included
    measures: dict[str, Tensor]  # by the names below; only what was asked for
    impl: str  # "reference", "tiled", "triton"


@dataclass(frozen=True, eq=False)
class MeasureRequest:
    """What to measure; what is not asked for is not paid for."""

    rows: bool = True
    keys: bool = True
    distances: bool = True  # weight by query - key distance
    pooled: int | None = 128  # side of the pooled map: edges floor(p * N / P), P = min(pooled, N) per axis
    sampled: int = 64  # rows for exact sorted measures; see sampled_rows()
    top: int = 0  # strongest keys per row
    scores: bool = False  # moments of the scores per row; mean score by distance
    groups: Tensor | None = None  # int [B, Nk], group of each key, -1 = none: mass per row and group
    tokens: Tensor | None = None  # int [B, Nk] ids, for duplicate and induction mass

    def __post_init__(self) -> None:
        for name in ("sampled", "top"):
            if getattr(self, name) < 0:
                raise ValueError(f"MeasureRequest.{name}: expected 0 or more, got {getattr(self, name)}.")
        if self.pooled is not None and self.pooled < 1:
            raise ValueError(f"MeasureRequest.pooled: expected a side of 1 or more, or None, got {self.pooled}.")


NOTHING = MeasureRequest(rows=False, keys=False, distances=False, pooled=None, sampled=0)

# name -> (unit, meaning). Row measures are [B, H, Nq], those per key [B, H, Nk], per distance [B, H, Dist].
# Counts and indices are int64, everything else float32 (reference: float64).
ROW_MEASURES = {
    "entropy": ("nats", "-sum_j A_ij ln A_ij, the learned sink one more outcome"),
    "max_weight": ("weight", "largest visible weight"),
    "max_key": ("key", "its key; the lowest of equals; -1 where no key is visible"),
    "sum_square": ("weight^2", "sum_j A_ij^2, the learned sink one more outcome"),
    "mean_distance": ("tokens", "sum_j A_ij |p_i - j|"),
    "first_mass": ("weight", "A on the first real key; NaN where it is not visible"),
    "self_mass": ("weight", "A[i, p_i]; NaN where it is not visible"),
    "previous_mass": ("weight", "A[i, p_i - 1]; NaN where it is not visible"),
    "learned_sink_mass": ("weight", "exp(sink - lse); 0 for heads without a learned sink"),
    "visible_keys": ("keys", "number of keys the row may see"),
    "negligible": ("keys", "visible weights under 0.01 / visible_keys"),
}
TOKEN_MEASURES = {  # with MeasureRequest.tokens, whatever `rows` says
    "duplicate_mass": ("weight", "sum over visible j < p_i with the row's own token; NaN where there is none"),
    "induction_mass": ("weight", "sum over visible j <= p_i that follow an equal token; NaN where there is none"),
}
KEY_MEASURES = {
    "received_sum": ("weight", "sum_i A_ij over the rows that see the key"),
    "received_max": ("weight", "largest weight received; NaN where no row sees the key"),
    "received_square": ("weight^2", "sum_i A_ij^2"),
    "visible_rows": ("rows", "number of rows that see the key"),
}
DISTANCE_MEASURES = {  # Dist = Nk for causal, index p_i - j; else Nq + Nk - 1, index (i - j) + Nk - 1
    "distance_sum": ("weight", "sum of weights at that distance"),
    "distance_rows": ("rows", "number of visible cells at that distance"),
}
POOLED_MEASURES = {  # [B, H, Pq, Pk]: blocks of pool_edges(Nq, pooled) x pool_edges(Nk, pooled)
    "pooled_mean": ("weight", "mean over the visible cells of the block; NaN where it has none"),
    "pooled_max": ("weight", "largest weight of the block; NaN where no cell is visible"),
}
SAMPLED_MEASURES = {  # S = min(sampled, Nq)
    "sampled_rows": ("row", "[S] the rows, ascending"),
    "coverage": ("keys", "[B, H, S, 5] fewest keys that hold a share of the visible mass; 0 where no key is visible"),
}
TOP_MEASURES = {  # [B, H, Nq, top], strongest first, the lowest key of equals first
    "top_keys": ("key", "strongest visible keys; -1 past the last"),
    "top_weights": ("weight", "their weights; NaN past the last"),
}
SCORE_MEASURES = {  # of the scores after temperature, over the visible keys, every key alike
    "score_mean": ("score", "[B, H, Nq] mean"),
    "score_variance": ("score^2", "[B, H, Nq] population variance"),
    "distance_score": ("score", "[B, H, Dist] mean over the visible cells at that distance; NaN where there is none"),
}
GROUP_MEASURES = {
    "group_mass": ("weight", "[B, H, Nq, G] mass on the visible keys of each group, G = largest group + 1")
}
COUNTS = frozenset(
    {"max_key", "visible_keys", "negligible", "visible_rows", "distance_rows", "sampled_rows", "coverage", "top_keys"}
)


def sampled_rows(n_query: int, sampled: int) -> Tensor:
    """Rows of the exact sorted measures, ascending: int64 [min(sampled, Nq)].

    The last 16 rows always, the others evenly spread over the rows before them.
    """
    count = min(sampled, n_query)
    last = min(LAST_SAMPLED_ROWS, count)
    spread, before = count - last, n_query - last
    return torch.cat([torch.arange(spread) * before // max(spread, 1), torch.arange(n_query - last, n_query)]).to(
        torch.int64
    )


def pool_edges(length: int, pooled: int) -> Tensor:
    """Edges of the blocks of a pooled axis, floor(p * N / P) for p = 0 .. P: int64 [P + 1], P = min(pooled, N)."""
    side = min(pooled, length)
    return torch.arange(side + 1) * length // side


def distance_index(causal: bool, n_query: int, n_key: int) -> tuple[int, int]:
    """Length of the distance axis and the index of distance 0."""
    return (n_key, 0) if causal else (n_query + n_key - 1, n_key - 1)

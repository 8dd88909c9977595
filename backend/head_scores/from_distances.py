"""Scores made of the weight by distance."""

from __future__ import annotations

import math

import numpy as np

from backend.head_scores.score import Score

NEAR = (16, 256, 1024)  # 64 is a stored statistic
BACK = (2, 3, 4)  # 0 and 1 are stored statistics
LEAST_ROWS = 16  # a distance that fewer rows reach says nothing of the head


def local_mass(width: int) -> Score:
    """Mass within a number of tokens."""
    return Score(
        caption=f"The share of attention on keys fewer than {width:,} tokens away.",
        formula=f"mean over rows i with n_i >= 2 of the sum of A_ij over |p_i - j| < {width}",
        unit="weight",
        range=(0.0, 1.0),
        table="distances",
        value=f"least(1, (sum(mass) FILTER (WHERE d < {width}) - any_value(lone)) / nullif(any_value(choosing), 0))",
        uniform=lambda seen: np.where(seen.choosing, np.minimum(seen.n, width) / seen.n, np.nan),
        uniform_words=f"mean of min(n_i, {width}) / n_i in causal attention",
        needs_run=True,
    )


def offset(back: int) -> Score:
    """The weight at one distance."""
    return Score(
        caption=f"The weight on the token {back} positions before.",
        formula=f"mean over rows i whose key p_i - {back} is visible of A[i, p_i - {back}]",
        unit="weight",
        range=(0.0, 1.0),
        table="distances",
        value=f"max(mean_weight) FILTER (WHERE distance = {back} AND rows > 0)",
        uniform=lambda seen: np.where(seen.n > back, 1 / seen.n, np.nan),
        uniform_words=f"mean of 1 / n_i over rows with n_i > {back} in causal attention",
        needs_run=True,
        source="Clark et al. 2019, What Does BERT Look At",
    )


SCORES = {
    **{f"offset_{back}": offset(back) for back in BACK},
    "best_offset": Score(
        caption="The distance at which a key gets most weight on average; negative where it lies behind the row.",
        formula=f"the k with the largest mean of A[i, p_i - k], over the distances that {LEAST_ROWS} rows or more have",
        unit="tokens",
        range=(-math.inf, math.inf),
        table="distances",
        value=f"arg_max(distance, mean_weight) FILTER (WHERE rows >= {LEAST_ROWS})",
    ),
    "best_offset_weight": Score(
        caption="The mean weight of a key at the best offset: how far the head looks at one fixed distance.",
        formula=f"the largest mean of A[i, p_i - k] over the distances k that {LEAST_ROWS} rows or more have",
        unit="weight",
        range=(0.0, 1.0),
        table="distances",
        value=f"max(mean_weight) FILTER (WHERE rows >= {LEAST_ROWS})",
    ),
    "previous_template_share": Score(
        caption="The share of all weight of the head that lies on the token just before; rows without one count too.",
        formula="sum over rows i of A[i, p_i - 1] / sum over rows i and keys j of A_ij",
        unit="share",
        range=(0.0, 1.0),
        table="distances",
        value="sum(mass) FILTER (WHERE distance = 1) / nullif(sum(mass), 0)",
        uniform=lambda seen: np.where(seen.choosing, 1 / seen.n, 0.0),
        uniform_words="mean of 1 / n_i, 0 for rows with one key, in causal attention",
        needs_run=True,
        source="TransformerLens, head_detector (template share)",
    ),
    **{f"local_mass_{width}": local_mass(width) for width in NEAR},
    "next_token": Score(
        caption="The weight on the token just after, in attention that looks both ways.",
        formula="mean over rows i whose next token is visible of A[i, p_i + 1]",
        unit="weight",
        range=(0.0, 1.0),
        table="distances",
        value="max(mean_weight) FILTER (WHERE distance = -1 AND rows > 0)",
        source="Clark et al. 2019, What Does BERT Look At",
    ),
    "signed_distance": Score(
        caption="The mean distance with its sign, in attention that looks both ways: above 0 where the head looks more "
        "to what stands before, below 0 where it looks more to what follows.",
        formula="sum over rows i and keys j of A_ij (p_i - j) / sum of A_ij",
        unit="tokens",
        range=(-math.inf, math.inf),
        table="distances",
        value="CASE WHEN min(distance) < 0 THEN sum(distance * mass) / nullif(sum(mass), 0) END",
    ),
    "median_distance": Score(
        caption="Half of the attention of the head is on keys at most this many tokens away.",
        formula="the smallest d for which the keys with |p_i - j| <= d have half of the weight of all rows together",
        unit="tokens",
        range=(0.0, math.inf),
        table="distances",
        value="min(d) FILTER (WHERE so_far >= (1 - 1e-6) * everything / 2)",
    ),
}

"""Scores made of the weight by distance."""

from __future__ import annotations

import math

import numpy as np

from backend.head_scores.score import Score

NEAR = (16, 256, 1024)  # 64 is a stored statistic


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


SCORES = {
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
    "median_distance": Score(
        caption="Half of the attention of the head is on keys at most this many tokens away.",
        formula="the smallest d for which the keys with |p_i - j| <= d have half of the weight of all rows together",
        unit="tokens",
        range=(0.0, math.inf),
        table="distances",
        value="min(d) FILTER (WHERE so_far >= (1 - 1e-6) * everything / 2)",
    ),
}

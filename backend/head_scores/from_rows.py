"""Scores made of one number per row."""

from __future__ import annotations

import math

import numpy as np

from backend.head_scores.score import Score, Seen

CHOOSING = "FILTER (WHERE n >= 2)"
CONTENT = "FILTER (WHERE n >= 2 AND first_mass IS NOT NULL AND a < 1 - 1e-6)"


def log_n(seen: Seen) -> np.ndarray:
    return np.where(seen.choosing, np.log(seen.n), np.nan)


def log_rest(seen: Seen) -> np.ndarray:
    return np.where(seen.choosing & seen.first, np.log(np.maximum(seen.n - 1, 1)), np.nan)


SCORES = {
    "entropy_share": Score(
        caption="The entropy of a row as a share of the largest it could have: 1 where all visible keys are looked at "
        "alike, whatever their number.",
        formula="mean over rows i with n_i >= 2 of H_i / ln n_i (a learned sink counts as one more key)",
        unit="share",
        range=(0.0, 1.0),
        value=f"avg(entropy / ln(outcomes)) {CHOOSING}",
        uniform=lambda seen: np.where(seen.choosing, 1.0, np.nan),
        uniform_words="1",
        source="Clark et al. 2019, What Does BERT Look At",
    ),
    "participation_ratio": Score(
        caption="The number of keys a row looks at, counted by the squares of the weights: faint weights count less "
        "than in effective keys.",
        formula="mean over rows i of 1 / sum_j A_ij^2",
        unit="keys",
        range=(1.0, math.inf),
        value="avg(1 / sum_square)",
        uniform=lambda seen: seen.n,
        uniform_words="mean of n_i",
    ),
    "renyi_2": Score(
        caption="The entropy of order 2, which follows the strong weights more than the ordinary entropy does.",
        formula="mean over rows i with n_i >= 2 of -ln sum_j A_ij^2",
        unit="nats",
        range=(0.0, math.inf),
        value=f"avg(-ln(sum_square)) {CHOOSING}",
        uniform=log_n,
        uniform_words="mean of ln n_i",
    ),
    "min_entropy": Score(
        caption="The entropy that only knows the strongest weight of a row.",
        formula="mean over rows i with n_i >= 2 of -ln max_j A_ij",
        unit="nats",
        range=(0.0, math.inf),
        value=f"avg(-ln(max_weight)) {CHOOSING}",
        uniform=log_n,
        uniform_words="mean of ln n_i",
    ),
    "hoyer_mean": Score(
        caption="How unequal the weights of a row are: 0 where all visible keys are looked at alike, 1 where one key "
        "has everything.",
        formula="mean over rows i with n_i >= 2 of (sqrt n_i - 1 / sqrt(sum_j A_ij^2)) / (sqrt n_i - 1)",
        unit="share",
        range=(0.0, 1.0),
        value=f"avg((sqrt(outcomes) - 1 / sqrt(sum_square)) / (sqrt(outcomes) - 1)) {CHOOSING}",
        uniform=lambda seen: np.where(seen.choosing, 0.0, np.nan),
        uniform_words="0",
        source="Hoyer 2004",
    ),
    "content_entropy": Score(
        caption="The entropy of what is left of a row when the first key is taken out and the rest is scaled up to 1: "
        "how widely a sink head spreads the attention that is not in the sink.",
        formula="mean over rows i with n_i >= 2 that see key 0 of the entropy of A_ij / (1 - A_i0), j > 0; rows with "
        "less than 1e-6 left are not counted",
        unit="nats",
        range=(0.0, math.inf),
        value=f"avg((entropy + CASE WHEN a > 0 THEN a * ln(a) ELSE 0 END) / (1 - a) + ln(1 - a)) {CONTENT}",
        uniform=log_rest,
        uniform_words="mean of ln (n_i - 1)",
    ),
}

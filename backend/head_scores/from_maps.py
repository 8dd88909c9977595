"""Scores made of whole rows, which take exact maps: measured on some rows of every head."""

from __future__ import annotations

import numpy as np

from backend.head_scores.score import Score
from backend.sparsity.concentration import gini

SCORES = {
    "gini_mean": Score(
        caption="How unequal the weights of a row are, counted by their order: 0 where all visible keys are looked at "
        "alike, near 1 where one key has everything.",
        formula="mean over sampled rows i with n_i >= 2 of sum_k (2 k - n_i - 1) p_(k) / n_i, the weights p of the "
        "visible keys in rising order and brought to a sum of 1",
        unit="share",
        range=(0.0, 1.0),
        table="maps",
        of_rows=gini,
        uniform=lambda seen: np.where(seen.choosing, 0.0, np.nan),
        uniform_words="0",
    ),
}

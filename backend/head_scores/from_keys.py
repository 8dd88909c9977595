"""Scores made of what single keys receive."""

from __future__ import annotations

import math

import numpy as np

from backend.head_scores.score import Score

DETECTED = "received_mean > 0.1 AND visible_rows >= 16"

SCORES = {
    "delimiter_mass": Score(
        caption="The share of attention on punctuation, line breaks and special tokens, the first token left out.",
        formula="mean over rows i with n_i >= 2 of the sum of A_ij over the delimiters j > 0",
        unit="weight",
        range=(0.0, 1.0),
        table="keys",
        value="greatest(0, (coalesce(sum(received_sum) FILTER (WHERE is_delimiter), 0) - any_value(lone_delimiter)) "
        "/ nullif(any_value(choosing), 0))",
        uniform=lambda seen: np.where(seen.choosing, seen.delimiters / seen.n, np.nan),
        uniform_words="the mean share of delimiters among the visible keys, in causal attention",
        needs_run=True,
        source="Clark et al. 2019, What Does BERT Look At",
    ),
    "detected_sinks": Score(
        caption="The number of keys that a row gives more than 10 % of its attention on average.",
        formula="the number of keys j seen by at least 16 rows with a mean of A_ij over those rows above 0.1",
        unit="keys",
        range=(0.0, math.inf),
        table="keys",
        value=f"count(*) FILTER (WHERE {DETECTED})",
        uniform_words="0 beyond the first ten tokens",
        source="Yu et al. 2024, Unveiling and Harnessing Hidden Attention Sinks",
    ),
}

"""The words of the page of positional basins."""

from __future__ import annotations

import math

from backend.terms.term import Term

SHARE, RATIO = (0.0, 1.0), (0.0, math.inf)
MIDDLE = "Found in the Middle (arXiv 2406.16008)"

TERMS = {
    "part_mass": Term(
        caption="The share of attention that a part of the prompt (a document, an example, a turn) gets.",
        formula="sum over tokens j of the part of the mean over the looking rows i that see j of A_ij; the mean over "
        "heads where several are shown",
        unit="share of a row",
        range=SHARE,
        baseline="the mean of 1 / n_i over the same rows, summed over the tokens of the part",
        source=f"{MIDDLE}; Attention Basin (arXiv 2508.05128)",
    ),
    "part_mass_per_token": Term(
        caption="What one token of a part gets on average, so that long and short parts can be compared.",
        formula="the mass of the part / its tokens (without those that were left out as sinks)",
        unit="share of a row",
        range=SHARE,
        baseline="the mean of 1 / n_i over the looking rows",
        source=MIDDLE,
    ),
    "basin_depth": Term(
        caption="How much less the most overlooked part between the ends gets than the two ends on average.",
        formula="1 - (smallest interior part) / (mean of the first and the last part), per token",
        unit="share",
        range=(-math.inf, 1.0),
        baseline="0: uniform attention is flat; below 0 the middle gets more than the ends",
    ),
    "primacy_recency": Term(
        caption="How much more the first part (primacy) and the last part (recency) get than the mean of all parts.",
        formula="first / mean and last / mean, per token",
        unit="ratio",
        range=RATIO,
        baseline="1",
    ),
    "basin_curvature": Term(
        caption="Whether the ends stand above the middle over the whole profile: above 0 they do.",
        formula="coefficient of s^2 of a parabola fitted to profile / mean, slots at s = -1 to 1",
        unit="1 / slot range squared",
        range=(-math.inf, math.inf),
        baseline="0",
    ),
    "between_parts": Term(
        caption="What the tokens of one part give to the tokens of another, and to everything that is no part.",
        formula="M[a, b] = mean over rows i in a of the sum over j in b of A_ij; every row sums to 1",
        unit="share of a row",
        range=SHARE,
        baseline="the share of the visible tokens that lie in b",
        source="Block-Attention (arXiv 2409.15355), Star Attention (arXiv 2411.17116)",
    ),
    "part_score_top": Term(
        caption="The relevance of a part read off its ten strongest tokens: it favours neither long nor short parts.",
        formula="mean of the 10 largest weights on tokens of the part (of all, where it has fewer)",
        unit="share of a row",
        range=SHARE,
        baseline="the mean of 1 / n_i over the looking rows",
    ),
}

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
        formula="M[a, b] = mean over rows i in a of the sum over j in b of A_ij, over the heads in which any sees b",
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
    "slot_profile": Term(
        caption="What a place in the prompt gets whatever stands there: every part has visited it.",
        formula="mean over cyclic shifts and heads of the share per token of the part at place s; band: 95 % of 1,000 "
        "means of resampled shifts",
        unit="share of a row",
        range=SHARE,
        baseline="the mean of 1 / n_i over the looking rows",
        source=f"{MIDDLE}; Lost in the Middle (arXiv 2307.03172)",
    ),
    "additive_fit": Term(
        caption="Place apart from content: the share of a part is fitted as a mean plus an effect of the part plus one "
        "of its place.",
        formula="a[c, s] = mean + content[part at s in shift c] + position[s], least squares, effects sum to 0; "
        "R2 = 1 - squared residuals / squared differences from the mean",
        unit="share of a row; R2 without unit",
        range=(-1.0, 1.0),
        baseline="0 for all effects; R2 is then undefined",
        source=f"{MIDDLE} (the additive model)",
    ),
    "answer_logprob": Term(
        caption="How probable the reference answer is behind the prompt.",
        formula="sum over its tokens of ln p(token | prompt and the tokens before it)",
        unit="nats",
        range=(-math.inf, 0.0),
    ),
    "weight_by_distance": Term(
        caption="The mean weight on the key that lies D tokens before the query, over the rows that have one.",
        formula="f(D) = (1 / rows with a key at D) sum over i of A[i, i - D]; bins 1, 2, 3, 4-5, 6-7, 8-11 ...",
        unit="weight",
        range=SHARE,
        baseline="the mean of 1 / n_i over the same rows",
    ),
    "decay_fit": Term(
        caption="Two laws by which weight may fall with distance: a power of D, or an exponential as under ALiBi.",
        formula="ln f = a + p ln D (power) and ln f = a + r D (exponential), least squares, octaves count alike, "
        "distances that fewer than 16 rows reach left out",
        unit="p without unit, r per token; R2",
        range=(-math.inf, math.inf),
        baseline="the fall of 1 / n_i, which is no law of the head",
    ),
    "score_by_distance": Term(
        caption="The mean score (before the softmax) of the key that lies D tokens before the query.",
        formula="g(D) = mean over rows of s[i, i - D], biases included",
        unit="nats",
        range=(-math.inf, math.inf),
        baseline="no value: uniform attention has equal scores",
    ),
    "prior_fit": Term(
        caption="The positional prior that describes the scores of a head best, if there is one.",
        formula="g(D) = c - (D / alpha)^beta, beta from 0.1 to 3; beta 1 = Laplace (ALiBi), 2 = Gaussian; R2 near 0 = "
        "position-free",
        unit="alpha in tokens, beta without unit; R2",
        range=(0.0, math.inf),
        baseline="R2 undefined",
        source="BAM (arXiv 2505.22842)",
    ),
    "entropy_slope": Term(
        caption="Whether a head spreads out as the text grows.",
        formula="slope of row entropy against ln of the number of visible keys, least squares over rows",
        unit="without unit",
        range=(-math.inf, math.inf),
        baseline="1",
    ),
    "rotary_wave": Term(
        caption="What the rotary embedding alone says about distance: the score of equal vectors D tokens apart.",
        formula="w(D) = (2 / d) sum over bands f of cos(D theta_f), theta_f = base^(-2 f / d), scaled like the model",
        unit="share of the score at distance 0",
        range=(-1.0, 1.0),
        baseline="1 at every distance without a rotary embedding",
        source="Attention Buckets (arXiv 2312.04455)",
    ),
    "calibrated_attention": Term(
        caption="What a part gets beyond what a neutral dummy of the same length gets at the same place.",
        formula="share per token of the part - share per token of a dummy there, all other parts unchanged; cheap: one "
        "reading with dummies at all places (approximation)",
        unit="share of a row, per token",
        range=(-1.0, 1.0),
        baseline="0",
        source=MIDDLE,
    ),
    "null_query": Term(
        caption="What the tokens of a part get under the question beyond what they get under a question that asks "
        "nothing.",
        formula="sum over tokens of (weight from the question - weight from the question N/A); tokens 2 standard "
        "deviations below the mean of their part are dropped",
        unit="share of a row",
        range=(-1.0, 1.0),
        baseline="0",
        source="QRHead (arXiv 2506.09944), in-context re-ranking (arXiv 2410.02642); all heads",
    ),
    "ranking_quality": Term(
        caption="How near the top of a ranking the part stands that was marked as the right one.",
        formula="recall@k = right parts among the first k / right parts; NDCG@10 = 1 / log2(place + 1) for one; "
        "1 / rank",
        unit="without unit",
        range=SHARE,
        baseline="of a random order of K parts: recall@k = k / K",
    ),
    "verdict": Term(
        caption="Whether a method changed the probability of the answer by more than chance over the starting orders.",
        formula="better (worse): the 95 % interval of the mean of ln p after - before is above (below) 0; Student's "
        "t over the orders",
        unit="nats",
        range=(-math.inf, math.inf),
        baseline="0 for the prompt as it is",
    ),
    "needle_answer": Term(
        caption="Whether the model answers from one sentence hidden in a long text, among sentences that look like it.",
        formula="ln p of the answer behind the question; given: the text that is written holds the answer's words",
        unit="nats; yes or no",
        range=(-math.inf, 0.0),
        source="needle in a haystack; look-alikes are Headwater's",
    ),
    "needle_mass": Term(
        caption="The share of attention on the needle while the answer is written; AUROC: does it tell success?",
        formula="mean over the rows that write the answer of the sum over needle tokens of A_ij; AUROC = how often "
        "a success has more of it than a failure",
        unit="share of a row",
        range=SHARE,
        baseline="tokens of the needle / visible tokens",
    ),
    "retrieval_score": Term(
        caption="How much of the needle a head copies: it looks at a needle token while that very token is written.",
        formula="different needle tokens j with j = argmax A_t and token written at t = token j, divided by its "
        "number of tokens; mean over cells where more than half of the answer's words were recalled",
        unit="share",
        range=SHARE,
        baseline="about 0",
        source="Retrieval Head (arXiv 2404.15574); repeated copies count once here",
    ),
    "segment_order": Term(
        caption="Whether the place of a part decides how much of it an embedding keeps.",
        formula="cosine(part alone, whole text) over cyclic shifts of the parts; slope against the place from 0 to 1; "
        "position sensitivity = 1 - smallest / largest mean cosine",
        unit="cosine",
        range=(-1.0, 1.0),
        baseline="slope 0, position sensitivity 0",
        source="PosIR (position sensitivity index)",
    ),
    "pooling_profile": Term(
        caption="Where the rows that become the embedding look, in ten equal parts of the text.",
        formula="mean over pooled rows and heads of the sum of A_ij over each tenth; front = first two / all ten",
        unit="share of a row",
        range=SHARE,
        baseline="a tenth of the text's share each; front 0.2",
    ),
}

"""The words of the page of sinks."""

from __future__ import annotations

import math

from backend.terms.term import Term

SHARE, RATIO = (0.0, 1.0), (0.0, math.inf)
EMERGES = "When Attention Sink Emerges in Language Models (arXiv 2410.10781)"

TERMS = {
    "importance": Term(
        caption="The mean weight that a key gets from the rows that see it; rows out of its sight do not count.",
        formula="alpha_k = (1 / r_k) sum over rows i that see key k of A_ik, r_k the number of these rows",
        unit="weight",
        range=SHARE,
        baseline="the mean of 1 / n_i over the same rows; for key 0 of T causal tokens H_T / T (0.0741 for 64)",
        source=EMERGES,
    ),
    "detected_sink": Term(
        caption="A key that holds more than its share of a head: its importance is above theta and enough rows see it.",
        formula="alpha_k > theta (0.1) and r_k >= 16; by the relative rule alpha_k > 10 median over j of alpha_j, over "
        "the keys j with r_j >= 16",
        unit="yes or no",
        range=SHARE,
        baseline="none beyond the first keys of a short prompt",
        source="ACT (arXiv 2406.15765) for theta; the least number of rows and the relative rule are Headwater's",
    ),
    "sink_head": Term(
        caption="A head is called a sink head where the importance of the first token is above epsilon.",
        formula="alpha_0 > epsilon (0.3)",
        unit="yes or no",
        range=SHARE,
        baseline="no head of a causal model from 8 tokens on",
        source=EMERGES,
    ),
    "sink_percentage": Term(
        caption="How many of a model's heads are sink heads: the published measure of a model's attention sinks.",
        formula="100 * mean over samples, layers and heads of 1[alpha_0 > epsilon]; 64 tokens and epsilon 0.3 in the "
        "published protocol. The interval is 95 % of 2,000 bootstrap means over samples.",
        unit="%",
        range=(0.0, 100.0),
        baseline="0 where epsilon is above the uniform importance of key 0",
        source=EMERGES,
    ),
    "sink_mass": Term(
        caption="What a row gives to the sinks of its head, mean over the rows that see two keys or more.",
        formula="mean over rows i of the sum over detected sinks s of A_is",
        unit="weight",
        range=SHARE,
        baseline="the mean over rows of the sinks' part of the visible keys",
    ),
    "mass_budget": Term(
        caption="Where a head's attention goes, in parts that add up to 1. A key is in the first part that fits it: "
        "sink, special, punctuation, near, content.",
        formula="sum over the keys of the part of A_ij, mean over rows i with n_i >= 2. Near: |p_i - j| < the chosen "
        "number of tokens. The learned sink has its own part.",
        unit="weight",
        range=SHARE,
        baseline="the tick in each bar: what uniform attention would give to the same sinks",
    ),
    "value_weighted_share": Term(
        caption="The sinks' share when a weight counts as much as the value it fetches: attention to a key with a "
        "small value moves little.",
        formula="sum over rows i and sinks s of A_is |W_O v_s|, divided by the same sum over all keys; rows with "
        "n_i >= 2",
        unit="share",
        range=SHARE,
        baseline="equal to the raw share where all values are of one length",
        source="Attention is Not Only a Weight (arXiv 2004.10102) for the norm; the share is Headwater's",
    ),
    "norm_ratio": Term(
        caption="The norm of the chosen key's vector divided by the median of the other keys' vectors.",
        formula="|x_k| / median over j != k of |x_j|, for keys, values, W_O v and the residual stream before the layer",
        unit="ratio",
        range=RATIO,
        baseline="1",
        source=EMERGES,
    ),
    "cosine_to_queries": Term(
        caption="How far the queries point towards the chosen key, and towards the other keys.",
        formula="mean over rows i of cos(q_i, k); beside it the mean over rows of the mean over the other visible keys",
        unit="cosine",
        range=(-1.0, 1.0),
        source=EMERGES,
    ),
    "logit_gap": Term(
        caption="How far the score of the chosen key stands above all others of its row together.",
        formula="mean over rows i of s_ik - ln(sum over other visible keys j of exp(s_ij)); 0: the key gets half",
        unit="nats",
        range=(-math.inf, math.inf),
        baseline="-ln(n_i - 1)",
    ),
    "massive_dimension": Term(
        caption="A dimension of a head's queries or keys of which the norm over the prompt is many times the mean.",
        formula="M_c = norm over tokens of x_c; massive where M_c > 5 mean over c of M_c (the 5 is an unverified "
        "default). Band: the rotary pair of the dimension, 0 the fastest.",
        unit="times the mean",
        range=RATIO,
        baseline="about 1 for vectors without a preferred dimension",
        source="Massive Values in Self-Attention Modules (arXiv 2502.01563)",
    ),
    "massive_activation": Term(
        caption="A token whose residual stream holds a number far above those of the other tokens.",
        formula="max |x| > 100 and > 1,000 median |x| of the layer (both limits are unverified defaults). The median "
        "is estimated: 0.6745 times the median over tokens of sqrt((norm^2 - max^2) / (width - 1)), as of normal "
        "values.",
        unit="magnitude",
        range=RATIO,
        source="Massive Activations in Large Language Models (arXiv 2402.17762); the estimate is Headwater's",
    ),
    "kl_after_before": Term(
        caption="How far the next-token distribution behind the prompt moved when the change was made.",
        formula="sum over tokens of p_after ln(p_after / p_before)",
        unit="nats",
        range=RATIO,
        baseline="0 where nothing changes",
    ),
    "loss_before_after": Term(
        caption="How well the model predicts the prompt's own tokens, over those that both runs read and predict.",
        formula="mean of -ln p(token given those before it)",
        unit="nats per token",
        range=RATIO,
    ),
    "mean_logit": Term(
        caption="What the softmax is taken of, and what it gives, averaged over sentences, heads and rows.",
        formula="mean over sentences, all heads of the layer and the rows i that see key j of s_ij, and of A_ij; "
        "s_ij is q_i k_j times the scale, softcap and biases included. Map of a layer: over sentences and heads.",
        unit="logit; weight",
        range=(-math.inf, math.inf),
        baseline="logit: the same for all keys of a row; weight: mean of 1 / n_i",
        source="after StreamingLLM (arXiv 2309.17453), figure 2, whose averaging is not published",
    ),
    "streaming_mass": Term(
        caption="What the full run's attention gives to the keys that a window keeps.",
        formula="exp(lse over kept keys - lse over all), mean over heads and the rows that lose a key",
        unit="share",
        range=SHARE,
        baseline="kept keys / visible keys",
    ),
    "stream_perplexity": Term(
        caption="How surprised the model is by the text when its cache drops what is not kept.",
        formula="exp(mean of -ln p(token)), from a run with such a cache",
        unit="perplexity",
        range=(1.0, math.inf),
        baseline="the perplexity with all keys",
        source="StreamingLLM (arXiv 2309.17453); positions are not renumbered here",
    ),
    "sink_free_view": Term(
        caption="Every row without its head's sinks: what they got is taken out and the rest is brought back to 1. The "
        "switch Without sinks means this on every page; sinks are keys with an importance above 0.1 over at least 16 "
        "rows, and learned sinks. What is shown with sinks all the same says so.",
        formula="A'_ij = A_ij / (1 - sum over sinks s of A_is) for keys j that are no sinks; rows with less than 1e-6 "
        "left have none",
        unit="weight",
        range=SHARE,
        baseline="1 / (visible keys that are no sinks)",
    ),
}

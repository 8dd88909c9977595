"""The words of the page Sparsity."""

from __future__ import annotations

import math

from backend.terms.term import Term

MINFERENCE = "MInference; FlexPrefill for the decision at run time"
TERMS = {
    "coverage": Term(
        "How many of its strongest keys hold a share of a row's attention.",
        "k@c = min{k: sum of the k largest A_ij >= c}; exact on the sampled rows (the last 16 and 48 spread before)",
        "keys, or share of the visible keys",
        (0, math.inf),
        "c of the visible keys, rounded up",
        "SampleAttention, FlexPrefill",
    ),
    "gini": Term(
        "How unequal the weights of a row are.",
        "sum_k (2k - n - 1) p_(k) / n with p sorted upwards; mean over the sampled rows that see two keys or more",
        "none",
        (0, 1),
        "0",
    ),
    "hoyer": Term(
        "How close a row is to giving everything to one key, by its sum of squares.",
        "(sqrt n - 1 / sqrt(sum p^2)) / (sqrt n - 1); mean over the sampled rows that see two keys or more",
        "none",
        (0, 1),
        "0",
    ),
    "participation": Term(
        "The number of keys that take part, by the sum of squares of the weights.",
        "1 / sum_j A_ij^2; mean over the sampled rows that see two keys or more",
        "keys",
        (1, math.inf),
        "n_i",
    ),
    "normalised_entropy": Term(
        "Entropy of a row over the entropy of uniform attention.",
        "H_i / ln n_i; mean over the sampled rows that see two keys or more",
        "none",
        (0, 1),
        "1",
    ),
    "threshold_share": Term(
        "The share of visible cells with less weight than a threshold.",
        "#{visible: A_ij < eps / n_i} / #{visible} for eps = 1, 0.1, 0.01, or A_ij under 0.001, 0.0001; strictly under",
        "share of cells",
        (0, 1),
        "0",
    ),
    "score_sigma": Term(
        "How much the scores of a row spread; its inverse is the temperature of the head.",
        "standard deviation of s_ij over the visible keys, every key alike; rows with 16 keys or more",
        "nats",
        (0, math.inf),
        "0",
        "Linear Log-Normal Attention",
    ),
    "entropy_misfit": Term(
        "By how much the log-normal picture of a row misses its entropy.",
        "(ln n - sigma^2 / 2) - H; 0 where scores are Gaussian and sigma^2 is far below 2 ln n",
        "nats",
        (-math.inf, math.inf),
        "0",
        "Linear Log-Normal Attention",
    ),
    "log_normal_misfit": Term(
        "How far the logarithms of the weights are from the normals that have the spread of their rows.",
        "half the sum over bins of |share of the keys - share under the normals|, with what the normals put outside "
        "of all bins; 0: weights are log-normal",
        "share of the keys",
        (0, 1),
        "",
        "Linear Log-Normal Attention",
    ),
    "pattern": Term(
        "The simplest family of patterns that keeps about as much of a head's attention as the best one.",
        "retained mass at equal numbers of (query, key) pairs; within 1 point of the best the simpler one is named; "
        "dense where the cheapest family needs more than half of the pairs for 95 %",
        "none",
        (0, 1),
        "dense",
        MINFERENCE,
    ),
    "retained_mass": Term(
        "The share of a row's attention that lies on the kept keys.",
        "m_i = exp(lse_kept - lse) = sum of A_ij over kept j; KL(kept || full) = -ln m_i, total variation = 1 - m_i",
        "share",
        (0, 1),
        "the share of the visible keys that is kept",
    ),
    "policy_budget": Term(
        "The share of the keys that a policy may keep.",
        "floor(budget * r) keys per key head, r the keys of the context that a later row can still see; policies that "
        "spend unlike amounts on heads or layers spend the same together",
        "share of the keys",
        (0, 1),
    ),
    "best_possible": Term(
        "What a head would retain with as many keys as the policy left it, were they the best ones.",
        "the keys with the largest sums of A_ij over later rows and the query heads of the key head",
        "share",
        (0, 1),
        "the share of the visible keys that is kept",
    ),
    "overlap": Term(
        "How many keys a policy's choice shares with the best choice of as many keys.",
        "shared keys / keys of either, per key head; mean over key heads",
        "share",
        (0, 1),
    ),
    "needle_survival": Term(
        "The share of (key head, token) pairs of a part of the prompt that is still in the cache.",
        "kept pairs / pairs",
        "share",
        (0, 1),
        "the budget, for keys drawn by lot",
    ),
    "damage": Term(
        "How far the next-token distribution moved because less was kept.",
        "KL(with less || dense) = sum_v q_v ln(q_v / p_v); mean over the judged tokens behind the context",
        "nats",
        (0, math.inf),
    ),
    "predicted_damage": Term(
        "What the retained attention alone says of the damage, without a run.",
        "-ln m, the divergence of a row of attention; mean over heads and judged rows",
        "nats",
        (0, math.inf),
        "-ln of the share of the visible keys that is kept",
    ),
    "same_first": Term(
        "How often the most probable next token is the one of the dense run.",
        "#{judged tokens: argmax q = argmax p} / #{judged tokens}",
        "share",
        (0, 1),
    ),
    "output_error": Term(
        "How far the output of a head moved because keys were dropped in its layer alone.",
        "||o - o~|| / ||o||, o~ with the kept keys renormalised; mean over the judged rows",
        "none",
        (0, math.inf),
        "",
        "p / (1 - p) ||o - v|| for one dropped key: CAOTE",
    ),
    "cache_bytes": Term(
        "Memory of keys and values, and the operations of attention over them.",
        "cache: sum over layers of Hk (D + Dv) keys b; one more token: 2 H (D + Dv) keys; a whole text: 2 H (D + Dv) "
        "pairs; keys of a windowed layer: at most its window",
        "bytes, operations",
        (0, math.inf),
    ),
    "flexprefill": Term(
        "Whether pooled queries and keys predict where the last rows look.",
        "D = sqrt(JS(softmax of pooled q . pooled k, real attention per block of the last block of rows)); below 0.1 "
        "blocks are chosen, else columns and diagonals, until they hold 90 %",
        "sqrt(nats)",
        (0, 0.8326),
        "0",
        MINFERENCE,
    ),
    "block_recall": Term(
        "How many of the best blocks an estimate finds.",
        "blocks that are among both the k chosen and the k with most mass / k; MoBA: q . mean(k), Quest: "
        "sum_c max(q_c min_c, q_c max_c); the row's own block is always chosen",
        "share",
        (0, 1),
        "",
        "MoBA, Quest",
    ),
    "quest_bound": Term(
        "How far Quest's bound lies above the largest product in its page of 16 keys.",
        "sum_c max(q_c min_c, q_c max_c) - max_j q . k_j; never below 0",
        "q . k",
        (0, math.inf),
        "",
        "Quest",
    ),
    "dense_heads": Term(
        "Key heads that are left whole while all others drop keys, the worst ones first.",
        "greedy: each of the first ones is the candidate that leaves least damage together with those before it; the "
        "others follow by KL(with this key head alone shortened || dense), largest first; curve: KL with the first "
        "ones left whole",
        "nats",
        (0, math.inf),
    ),
    "key_rank": Term(
        "How many directions hold a share of the variance of a head's keys.",
        "min r: the r largest eigenvalues of the covariance of k hold the share; centred, over the tokens of the text",
        "directions",
        (1, math.inf),
        "all of them, nearly",
        "Loki",
    ),
    "score_recall": Term(
        "How many of a row's strongest keys are found with scores of fewer directions.",
        "share of the strongest tenth of the visible keys that q . P_r P_r' k puts into its own strongest tenth",
        "share",
        (0, 1),
        "a tenth",
        "Loki",
    ),
    "weight_rank": Term(
        "How many directions the weights of a head can compare or write.",
        "numerical rank: singular values of W_Q W_K' (or W_V W_O) above max(shape) eps s_1; effective rank: exp of the "
        "entropy of s / sum s",
        "directions",
        (0, math.inf),
    ),
    "temporal_similarity": Term(
        "How alike a row is to the one before it.",
        "cos(A_t, A_(t-1)) key by key, and with A_(t-1) moved on by one key; strongest tenth of the keys shared "
        "over those "
        "of either; mass of row t on the strongest tenth of row t-1 and on itself",
        "cosine, share",
        (0, 1),
        "near 1 key by key",
        "AttentionPredictor",
    ),
    "local_suffices": Term(
        "The share of rows for which the neighbourhood holds nearly everything.",
        "share of rows with at least 99 % of the mass on the last w and the first 4 keys; w = 256, of short "
        "texts a quarter",
        "share of rows",
        (0, 1),
        "the share of rows that see no more than those keys",
        "All-or-Here",
    ),
    "qada": Term(
        "Whether the need for far keys can be seen from the near ones.",
        "m_loc = sigmoid(lse_near - lse_far), lse_far predicted as ln N + s q.mu + s^2 q' Sigma q / 2 from the "
        "mean and "
        "covariance of the far keys; agreement: same side of 0.6 (unverified default)",
        "share",
        (0, 1),
        "the share of near keys",
        "QAdA",
    ),
}

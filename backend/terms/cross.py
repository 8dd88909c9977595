"""Words of pictures and of two texts: what patches get, coverage of a source, alignment."""

from __future__ import annotations

import math

from backend.terms.term import Term

TERMS = {
    "patch_attention": Term(
        caption="What a patch gets of a token's attention; from all tokens, the mean over the rows that see it.",
        formula="A_ij of the chosen row i and patch j; or received_mean of key j",
        unit="weight",
        range=(0.0, 1.0),
        baseline="1 / n_i, n_i = keys that the row sees",
    ),
    "source_coverage": Term(
        caption="What a source token got over the whole target, in rows' worths of attention.",
        formula="C_j = sum over target tokens i of A_ij",
        unit="rows",
        range=(0.0, math.inf),
        baseline="target tokens / source tokens",
        source="Rikters and Fishel 2017, Confidence through Attention",
    ),
    "soft_alignment": Term(
        caption="Which source tokens a target token looks at. The strongest one need not be its translation.",
        formula="A_ij; strongest: argmax over j",
        unit="weight",
        range=(0.0, 1.0),
        baseline="1 / source tokens",
    ),
    "coverage_deviation": Term(
        caption="How far the source is from being covered once: 0 where every source token got one row's worth.",
        formula="-(1 / J) sum_j ln(1 + (1 - C_j)^2)",
        unit="",
        range=(-math.inf, 0.0),
        source="Rikters and Fishel 2017, Confidence through Attention",
    ),
    "absentmindedness": Term(
        caption="How widely target tokens look, with a minus: 0 where each looks at one source token only.",
        formula="(1 / I) sum_i sum_j A_ij ln A_ij",
        unit="nats",
        range=(-math.inf, 0.0),
        baseline="-ln(source tokens)",
        source="Rikters and Fishel 2017, Confidence through Attention",
    ),
    "monotonicity": Term(
        caption="Whether later target tokens look at later source tokens: 1 always, -1 the other way round.",
        formula="Spearman's rank correlation of i and sum_j j A_ij",
        unit="",
        range=(-1.0, 1.0),
        baseline="undefined: all places are one",
    ),
}

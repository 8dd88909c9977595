"""The words of the lessons: what has to be known before any statistic makes sense."""

from __future__ import annotations

import math

from backend.terms.term import Term

COUNT = (0.0, math.inf)

TERMS = {
    "token": Term(
        caption="A piece of text that the model reads as one: a word, a part of a word, a mark. Counted from 0.",
        formula="position 0 to N - 1; N tokens in all",
        unit="tokens",
        range=COUNT,
    ),
    "query_and_key": Term(
        caption="In attention each token asks with its query and answers with its key: rows of a map are queries, "
        "columns are keys.",
        formula="score of query i and key j: q_i . k_j times a scale",
        unit="score",
        range=(-math.inf, math.inf),
        source="Attention Is All You Need (arXiv 1706.03762)",
    ),
    "attention_weight": Term(
        caption="How much of a row goes to one key. The weights of a row add up to 1.",
        formula="A_ij = exp(s_ij) / sum over visible keys k of exp(s_ik)",
        unit="weight",
        range=(0.0, 1.0),
        baseline="1 / n_i, n_i the number of visible keys",
        source="Attention Is All You Need (arXiv 1706.03762)",
    ),
    "attention_head": Term(
        caption="One of several attentions that run side by side in a layer, each with its own map. Named layer.head, "
        "both counted from 0.",
        formula="layer.head",
        unit="heads",
        range=COUNT,
        source="Attention Is All You Need (arXiv 1706.03762)",
    ),
    "visible_keys": Term(
        caption="How many keys a query may see. In a model that writes, these are the tokens so far, itself included. "
        "A key that may not be seen has no weight at all, which is not a weight of 0.",
        formula="n_i = i + 1 where every token sees itself and all before it",
        unit="keys",
        range=COUNT,
    ),
    "mass_of_tokens": Term(
        caption="What a set of tokens gets from the chosen rows.",
        formula="sum over the keys j of the set of A_ij, mean over the chosen rows i",
        unit="weight",
        range=(0.0, 1.0),
        baseline="the set's part of the visible keys",
    ),
    "keys_for_a_share": Term(
        caption="How many of the strongest keys of a row are needed for a share of it.",
        formula="smallest k whose k largest weights add up to the share or more",
        unit="keys",
        range=COUNT,
        baseline="share times n_i, rounded up",
    ),
    "written_norm": Term(
        caption="The length of what a key's value becomes after the output projection: how much a weight of 1 would "
        "write.",
        formula="|W_O v_j|",
        unit="norm",
        range=COUNT,
        source="Attention is Not Only a Weight (arXiv 2004.10102)",
    ),
    "stored_size": Term(
        caption="How many bytes a part of an analysis takes in its file.",
        formula="sum of the lengths of the stored arrays",
        unit="bytes",
        range=COUNT,
    ),
}

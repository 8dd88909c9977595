"""Words of the page Heads: the scores that are computed from stored tables, the labels, how alike heads are."""

from __future__ import annotations

import math

from backend import head_labels, head_scores
from backend.terms.term import Term


def of_label(label: head_labels.HeadLabel) -> Term:
    """A label as a term: its rule with the limits it starts from."""
    rule = " and ".join(
        f"{one.score.replace('_', ' ')}{' / its uniform value' if one.relative else ''} "
        f"{'>' if one.above else '<'} {one.limit:g}"
        for one in label.conditions
    )
    sources = "; ".join(one.source for one in label.conditions if one.source)
    return Term(
        caption=f"{label.says} A name for a habit seen in this text, not a proof of what the head is for.",
        formula=rule,
        unit="the value of the first number",
        range=(0.0, 1.0 if not label.conditions[0].relative else math.inf),
        source=sources and f"limits after {sources}",
    )


TERMS = {
    **{
        name: Term(score.caption, score.formula, score.unit, score.range, score.uniform_words, score.source)
        for name, score in head_scores.all().items()
    },
    **{f"{name}_label": of_label(label) for name, label in head_labels.all().items()},
    "divergence_of_heads": Term(
        caption="How differently two heads spread their attention on the same rows: 0 where they are alike, ln 2 where "
        "they never look at the same key.",
        formula="mean over sampled rows of H((A + A') / 2) - (H(A) + H(A')) / 2; in long rows far keys are gathered in "
        "blocks first, which can only lower it",
        unit="nats",
        range=(0.0, math.log(2)),
        baseline="0 between two uniform heads",
        source="Clark et al. 2019, What Does BERT Look At",
    ),
    "map_of_heads": Term(
        caption="Heads drawn so that like ones are close. The axes have no meaning of their own.",
        formula="classical multidimensional scaling of the square roots of the divergences",
        unit="square root of nats",
        range=(-math.inf, math.inf),
    ),
    "group_of_heads": Term(
        caption="Heads joined with those most like them until as many groups are left as were asked for.",
        formula="average linkage on the square roots of the divergences",
        unit="number of the group, 0 the largest",
        range=(0.0, math.inf),
    ),
    "share_of_heads": Term(
        caption="The share of all heads of this text whose value is at most that of the chosen head.",
        formula="number of heads with a value <= this one / number of heads with a value",
        unit="share",
        range=(0.0, 1.0),
    ),
    "attention_of_units": Term(
        caption="Attention between words, sentences or segments: to a unit the sum over its tokens, from a unit the "
        "mean over its rows.",
        formula="A[u, v] = mean over rows i of u of the sum of A_ij over tokens j of v; rows that see no key are not "
        "counted",
        unit="weight",
        range=(0.0, 1.0),
        baseline="visible tokens of v / n_i, averaged over the rows of u",
        source="Clark et al. 2019, What Does BERT Look At",
    ),
    "class_mass": Term(
        caption="How much of a row goes to all tokens of one kind, or to one part of the prompt.",
        formula="mean over rows i with n_i >= 2 of the sum of A_ij over the keys j of the class; the masses of all "
        "kinds add up to 1, less what a learned sink takes",
        unit="weight",
        range=(0.0, 1.0),
        baseline="mean share of the class among the visible keys",
        source="Clark et al. 2019, What Does BERT Look At",
    ),
    "class_lift": Term(
        caption="How many times as much a class gets as uniform attention would give it: 1 where it gets no more.",
        formula="mass of the class / mean over the same rows of (visible keys of the class) / n_i",
        unit="times",
        range=(0.0, math.inf),
        baseline="1",
    ),
    "next_token_probability": Term(
        caption="What the model would have said next, before one was chosen.",
        formula="exp(logprob) of the softmax over the vocabulary",
        unit="share",
        range=(0.0, 1.0),
    ),
}

"""What a model answers: the probability of a reference answer and the text it writes, changed or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backend.basins.passes import Prefix, answer_ids, answer_logprobs, session, step, without, write
from backend.generate import ends_of
from backend.interventions import Intervention
from backend.models import LoadedModel
from backend.prompts import EncodedPrompt

# Quantiles 0.975 of Student's t for 1, 2, 3 ... degrees of freedom; 1.96 beyond.
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)
T = (*T, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
BETTER, WORSE, SAME, UNKNOWN = "better", "worse", "no difference beyond chance", "not judged"


@dataclass(frozen=True)
class Outcome:
    """Of one prompt, as it is or changed."""

    logprob: float | None  # ln p of the whole reference answer; None without one
    per_token: float | None
    text: str  # the most probable text
    read: int  # tokens that were read for it, besides what was read before


def outcome(
    model: LoadedModel,
    encoded: EncodedPrompt,
    *,
    answer: str | None,
    new_tokens: int,
    prefix: Prefix | None = None,
    first: int = 0,
    interventions: Sequence[Intervention] = (),
    stop: Callable[[], None] = lambda: None,
) -> Outcome:
    """Reads the prompt from token `first` on (what comes before is in the prefix and stays unchanged) and answers."""
    ids = encoded.token_ids
    first = first if prefix is not None else 0
    logprobs, read = None, len(ids) - first
    with session(model, interventions=interventions, segments=encoded.segments):
        before = step(model, ids[first:], None if first == 0 else prefix.first(first))
        if answer is not None:
            expected = answer_ids(model, encoded, answer)
            logprobs = answer_logprobs(model, before, expected)
            read += len(expected)
            if prefix is not None:
                before = without(before, len(ids))
            else:
                before = step(model, ids)
                read += len(ids)
        written = write(model, before, new_tokens, ends_of(model), stop)
    total = None if logprobs is None else sum(logprobs)
    return Outcome(
        total,
        None if logprobs is None else total / len(logprobs),
        model.tokenizer.decode(written, skip_special_tokens=True),
        read + len(written),
    )


def says(text: str, answer: str) -> bool:
    """Whether the text holds the answer, whatever the letters' case and the spaces."""
    return " ".join(answer.casefold().split()) in " ".join(text.casefold().split())


@dataclass(frozen=True)
class Verdict:
    """Paired differences over orders, in words."""

    mean: float | None
    low: float | None  # 95 % interval of the mean
    high: float | None
    word: str


def verdict(differences: Sequence[float | None]) -> Verdict:
    """better or worse only where the interval of the mean difference leaves 0 out."""
    known = [value for value in differences if value is not None and math.isfinite(value)]
    if len(known) < 2:
        return Verdict(known[0] if known else None, None, None, UNKNOWN)
    mean = sum(known) / len(known)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in known) / (len(known) - 1))
    quantile = T[len(known) - 2] if len(known) - 2 < len(T) else 1.96
    half = quantile * deviation / math.sqrt(len(known))
    word = BETTER if mean - half > 0 else WORSE if mean + half < 0 else SAME
    return Verdict(mean, mean - half, mean + half, word)

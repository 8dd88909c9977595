"""Heads that copy: the retrieval score (R-01), whether attention tells success (AUROC), how an answer is judged."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

KEPT_ROUGE = 0.5  # a sample counts where the answer's words are recalled beyond this
THRESHOLD = 0.1  # unverified default: from here a head is called a retrieval head


def retrieval_scores(
    strongest: np.ndarray, written: Sequence[int], token_ids: Sequence[int], needle: Sequence[int]
) -> np.ndarray:
    """R-01: for every head the share of the needle's tokens that it copied, [heads], 0 to 1.

    strongest: int [steps, heads], the key that got most when each token was written; written: these tokens; needle:
    positions. A head copies token j where it looks at j most while the token at j is written; copies of the same
    position count once (the published code counts them again and can exceed 1).
    """
    places, count = set(needle), np.zeros(strongest.shape[1])
    for head in range(strongest.shape[1]):
        copied = {
            int(key)
            for key, token in zip(strongest[:, head], written, strict=True)
            if int(key) in places and token_ids[int(key)] == token
        }
        count[head] = len(copied)
    return count / max(len(places), 1)


def rouge1_recall(text: str, reference: str) -> float:
    """Share of the reference's words that the text holds, repeated words as often as they stand there."""
    have, want = words_of(text), words_of(reference)
    found = sum(min(have.count(word), want.count(word)) for word in set(want))
    return found / len(want) if want else 0.0


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def auroc(values: Sequence[float], success: Sequence[bool]) -> float | None:
    """How often a success has a larger value than a failure; equal ones count half. None where success never varies."""
    value, won = np.asarray(values, float), np.asarray(success, bool)
    there = np.isfinite(value)
    first, second = value[there & won], value[there & ~won]
    if len(first) == 0 or len(second) == 0:
        return None
    larger = (first[:, None] > second[None]).mean() + (first[:, None] == second[None]).mean() / 2
    return float(larger)

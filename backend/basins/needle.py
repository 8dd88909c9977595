"""One cell of a needle sweep: the answer with all heads, and with some of them off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from backend.basins.captured import layer_rows
from backend.basins.haystack import Haystack
from backend.basins.outcome import says
from backend.basins.passes import (
    Prefix,
    Step,
    answer_ids,
    answer_logprobs,
    session,
    step,
    why_not_reusable,
    without,
    write,
)
from backend.basins.readings import prefix_of
from backend.basins.retrieval import retrieval_scores, rouge1_recall
from backend.generate import ends_of
from backend.interventions import Gate, Intervention
from backend.models import LoadedModel
from backend.statistics.statistic import ratio
from backend.types import LayerCapture

Place = tuple[int, int]
Stop = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Cell:
    """What one cell gave."""

    judged: dict  # logprob, exact, rouge, text
    places: list[Place]
    retrieval: np.ndarray  # [heads]
    mass: np.ndarray  # [heads] share of a row on the needle, mean over the rows that write the answer and see any of
    # it; NaN where none does
    alike_mass: np.ndarray  # the same on all look-alikes; 0 without any


def plain_cell(model: LoadedModel, hay: Haystack, answer: str, new_tokens: int, stop: Stop) -> Cell:
    """The answer, and what every head looked at while it was written."""
    prefix = text_before(model, hay, stop)
    judged, written = answered(model, hay, answer, new_tokens, prefix, (), stop)
    ids, first = [*hay.encoded.token_ids, *written], hay.question
    rows = slice(len(hay.encoded.token_ids) - 1, len(ids) - 1 if written else len(ids))  # row i writes token i + 1
    places: list[Place] = []
    strongest, mass, alike = [], [], []
    others = [position for place in hay.others for position in place]

    def keep(layer: LayerCapture) -> None:
        stop()
        weights, seen = layer_rows(layer, rows)
        places.extend((layer.info.layer, head) for head in range(layer.info.heads))
        strongest.append(np.where(seen, weights, -1.0).argmax(-1))  # [H, steps]
        mass.append(mass_on(weights, seen, list(hay.needle)))
        alike.append(mass_on(weights, seen, others) if others else np.zeros(len(weights)))

    with session(model, on_layer=keep):
        step(model, ids if prefix is None else ids[first:], None if prefix is None else prefix.first(first))
    steps = np.concatenate(strongest).T[: len(written)]
    found = retrieval_scores(steps, written, ids, hay.needle) if written else np.zeros(len(places))
    return Cell(judged, places, found, np.concatenate(mass), np.concatenate(alike))


def mass_on(weights: np.ndarray, seen: np.ndarray, keys: list[int]) -> np.ndarray:
    """Share on these keys, mean over the rows [H, rows, N] that see any of them: [H]; NaN where none does."""
    rows = seen[..., keys].any(-1)
    return ratio(np.where(rows, weights[..., keys].sum(-1), 0.0).sum(-1), rows.sum(-1))


def masked_cell(
    model: LoadedModel,
    hay: Haystack,
    answer: str,
    new_tokens: int,
    sets: Mapping[str, list[list[Place]]],
    stop: Stop,
) -> list[dict]:
    """The answer with each set of heads off while the question is read and the answer written."""
    prefix = text_before(model, hay, stop)
    rows = []
    for name, drawn in sets.items():
        for draw, heads in enumerate(drawn):
            off = Gate(heads=tuple(heads), factor=0)
            judged, _ = answered(model, hay, answer, new_tokens, prefix, (off,), stop)
            rows.append({"off": name, "draw": draw, **judged})
    return rows


def text_before(model: LoadedModel, hay: Haystack, stop: Stop) -> Prefix | None:
    """Everything before the question; what another text began with is not read again. None where keys and values
    cannot be kept: then heads are off while the text is read too."""
    if why_not_reusable(model) is not None:
        return None
    return prefix_of(model, hay.encoded.token_ids[: hay.question], stop)


def answered(
    model: LoadedModel,
    hay: Haystack,
    answer: str,
    new_tokens: int,
    prefix: Prefix | None,
    interventions: Sequence[Intervention],
    stop: Stop,
) -> tuple[dict, list[int]]:
    """How the answer is judged, and the tokens that were written."""
    expected = answer_ids(model, hay.encoded, answer)
    ids = hay.encoded.token_ids

    def read() -> Step:
        if prefix is None:
            return step(model, ids)
        return step(model, ids[hay.question :], prefix.first(hay.question))

    with session(model, interventions=interventions), torch.inference_mode():
        before = read()
        logprobs = answer_logprobs(model, before, expected)
        before = read() if prefix is None else without(before, len(ids))
        written = write(model, before, new_tokens, ends_of(model), stop)
    text = model.tokenizer.decode(written, skip_special_tokens=True)
    judged = {
        "logprob": None if logprobs is None else sum(logprobs),
        "exact": int(says(text, answer)),
        "rouge": rouge1_recall(text, answer),
        "text": text,
    }
    return judged, written

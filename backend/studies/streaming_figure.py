"""StreamingLLM's figure for the model at hand: mean attention logits and probabilities, layers by position.

Sentences of one length are read one forward pass each batch. A cell (layer, row, key) is the mean over sentences and
heads; a cell (layer, key) is the mean over sentences, heads and the rows that see the key. Logits are what the softmax
is taken of: q.k times the scale, softcap and biases included. Cells that a row cannot see are in no mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from backend import prompt_sets
from backend.basins.prose import sentences_in
from backend.capture import capture
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import estimate, speed, work
from backend.models import LoadedModel
from backend.next_token import tapped
from backend.options import Options
from backend.prompts import tokenise
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.studies.refusals import require_length, require_one_stack
from backend.types import LayerCapture
from kernels.measures import NOTHING
from kernels.window import scores, visible, weights

TOGETHER = 16  # sentences of one forward pass, which is one run
MOST_LENGTH = 64  # tokens: all cells of all layers are kept


@dataclass(frozen=True)
class Parameters:
    """What a person may choose. The paper's own: 256 sentences of 16 tokens."""

    samples: int = 64
    length: int = 16
    texts: tuple[str, ...] = ()  # texts of one's own, cut into sentences; none = those that come with Headwater

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(self.texts))
        for name, least, most in (("samples", 1, 100_000), ("length", 2, MOST_LENGTH)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise Refused(f"{name}: expected a whole number from {least} to {most:,}, got {value!r}.")


MEANS = {
    "logit": Column("double", "mean of what the softmax is taken of"),
    "probability": Column("double", "mean weight, 0 to 1"),
    "cells": Column("int", "cells in the mean"),
}
TABLES = {
    "positions": {
        "layer": Column("int", "the model's own number"),
        "key": Column("int", "position of the key, from 0"),
        **MEANS,
        "uniform": Column("double", "mean weight under uniform attention over the visible keys"),
    },
    "maps": {
        "layer": Column("int", "the model's own number"),
        "row": Column("int", "position of the query"),
        "key": Column("int", "position of the key"),
        **MEANS,
    },
    "heads": {
        "layer": Column("int", "the model's own number"),
        "head": Column("int", "query head"),
        "key": Column("int", "position of the key"),
        **MEANS,
    },
}


class StreamingFigure(StudyDefinition):
    """The figure that made attention sinks known, with its averaging said."""

    title = "Mean logits and probabilities"
    question = "What do the logits and weights of every layer look like, position by position, averaged over sentences?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        return f"{parameters.samples} sentences of {parameters.length} tokens"

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        n = parameters.length
        require_length(model, n, "A sentence")
        require_one_stack(model, "The figure")
        count = len(sentences_of(model, parameters))
        if count < parameters.samples:
            raise Refused(
                f"{parameters.samples} sentences of {n} tokens were asked for and the texts have {count}. Ask for "
                "fewer or shorter ones."
            )
        runs = -(-parameters.samples // TOGETHER)
        seconds = runs * 0.1 + parameters.samples * work(model, n) / speed(model)
        memory = TOGETHER * estimate(model, n, Options(exact_maps="none")).memory_mb
        words = f"{parameters.samples:,} sentences of {n} tokens · about {duration(seconds)} · 2 MB on disk"
        return Plan(runs, n, seconds, memory, 2.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        first = number * TOGETHER
        ids = sentences_of(model, parameters)[first : min(first + TOGETHER, parameters.samples)]
        rows: dict[str, list[Row]] = {name: [] for name in TABLES}

        def on_layer(layer: LayerCapture) -> None:
            where.stop_if_cancelled()
            for name, found in sums_of(layer).items():
                rows[name] += found

        inputs = {"input_ids": torch.tensor(ids, device=model.device), **({"use_cache": False} if model.causal else {})}
        with torch.inference_mode(), tapped(model.model), capture(model, NOTHING, on_layer=on_layer):
            model.model(**inputs)
        where.stop_if_cancelled()
        return RunResult(rows)

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        return {name: combined(name, [row for result in results for row in result.rows[name]]) for name in TABLES}


def sentences_of(model: LoadedModel, parameters: Parameters) -> list[list[int]]:
    """Sentences with enough tokens, cut to the length, a begin of text first where the tokenizer puts one."""
    if model.tokenizer is None:
        raise Refused(f"{model.name} came without a tokenizer: sentences cannot be read.")
    texts = parameters.texts or prompt_sets.natural().texts
    found = []
    for text in texts:
        for sentence in sentences_in(text):
            ids = tokenise(model.tokenizer, sentence, add_special=True, parse_special=False)["input_ids"]
            if len(ids) >= parameters.length:
                found.append(ids[: parameters.length])
    return found


def sums_of(layer: LayerCapture) -> dict[str, list[Row]]:
    """Sums and numbers of cells of one layer and one batch, for each table."""
    n_query, n_key = layer.query.shape[2], layer.key.shape[2]
    window = slice(0, n_query), slice(0, n_key)
    seen = visible(layer.score, n_query, n_key, *window).expand(*layer.query.shape[:2], -1, -1)
    raw = scores(layer.query, layer.key, layer.score, *window).double().masked_fill(~seen, 0.0)
    mass = weights(layer.query, layer.key, layer.score, layer.lse, *window).double()
    level = seen.double() / seen.sum(-1, keepdim=True).clamp(min=1)
    number = layer.info.layer

    def rows(axes: tuple[int, ...], names: tuple[str, str], more: Sequence[tuple[str, Tensor]] = ()) -> list[Row]:
        parts = {"logit": raw, "probability": mass, "cells": seen.double(), **dict(more)}
        sums = {name: part.sum(axes).cpu().numpy() for name, part in parts.items()}
        places = np.argwhere(sums["cells"] > 0).tolist()
        return [
            {
                "layer": number,
                **dict(zip(names[-len(place) :], place, strict=True)),
                **{name: float(values[tuple(place)]) for name, values in sums.items()},
            }
            for place in places
        ]

    return {
        "positions": rows((0, 1, 2), ("", "key"), [("uniform", level)]),
        "maps": rows((0, 1), ("row", "key")),
        "heads": rows((0, 2), ("head", "key")),
    }


def combined(name: str, rows: Sequence[Row]) -> list[Row]:
    """Means of the sums of all batches."""
    values = [column for column in ("logit", "probability", "uniform") if column in TABLES[name]]
    places = [column for column in TABLES[name] if column not in (*values, "cells")]
    sums: dict[tuple, dict[str, float]] = {}
    for row in rows:
        into = sums.setdefault(tuple(row[place] for place in places), dict.fromkeys([*values, "cells"], 0.0))
        for column in into:
            into[column] += row[column]
    return [
        {
            **dict(zip(places, place, strict=True)),
            **{column: found[column] / found["cells"] for column in values},
            "cells": int(found["cells"]),
        }
        for place, found in sorted(sums.items())
    ]


STUDY = StreamingFigure()

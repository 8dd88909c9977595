"""Random repeat: which heads copy what followed before, find the same token again, or look one token back?

The model reads [first token, x_1 .. x_s, x_1 .. x_s], the x drawn at random: nothing but the repetition helps to read
the second copy. For row i the induction target is key i - s + 1 (what followed the earlier copy of the token), the
duplicate target key i - s (the earlier copy itself), the previous target key i - 1. Where attention sees both ways the
first copy has the same targets in the second: i + s + 1 and i + s. A row whose target is not visible does not count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import torch
from torch import Tensor

from backend.capture import capture
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import estimate, speed, work
from backend.models import LoadedModel
from backend.options import Options
from backend.pipeline import analyse
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.studies.refusals import require_one_stack
from backend.types import LayerCapture
from kernels.measures import MeasureRequest
from kernels.window import visible, weights

SCORES = ("induction", "duplicate_token", "previous_token")
ROWS_AT_ONCE = 128  # rows of the map in memory at a time
RUN_SECONDS = 0.05  # what a run takes however short it is
NOTHING_BUT_LSE = MeasureRequest(rows=False, keys=False, distances=False, pooled=None, sampled=0)


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    length: int = 50  # tokens in one copy
    samples: int = 10  # texts, each drawn anew
    seed: int = 0
    first_token: int | None = None  # id before the copies; None = the model's own begin of text (or [CLS], or end)
    keep_analyses: bool = False  # store the analysis of each text as well

    def __post_init__(self) -> None:
        for name, least in (("length", 2), ("samples", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise Refused(f"{name}: expected a whole number of {least} or more, got {value!r}.")

    @property
    def n_tokens(self) -> int:
        """Tokens of one text."""
        return 2 * self.length + 1


PLACE = {
    "kind": Column("text", "side of the model, see the table layers of an analysis"),
    "layer": Column("int", "the model's own number"),
    "head": Column("int", "query head"),
}
MEANINGS = {
    "induction": "weight on the token that followed the earlier copy, mean over rows of the second copy",
    "duplicate_token": "weight on the earlier copy of the same token, mean over rows of the second copy",
    "previous_token": "weight on the token just before, mean over all rows that have one",
}


def score_columns() -> dict[str, Column]:
    """Mean, standard error and uniform value of each score."""
    columns = {}
    for name in SCORES:
        columns[name] = Column("double", f"{MEANINGS[name]}; mean over samples, 0 to 1")
        columns[f"{name}_error"] = Column("double", f"standard error of {name} over samples; null for one sample")
        columns[f"{name}_uniform"] = Column("double", f"{name} of uniform attention over the visible keys")
    return columns


TABLES = {
    "scores": {**PLACE, "samples": Column("int", "texts that were read"), **score_columns()},
    "samples": {
        "sample": Column("int", "number of the text"),
        **PLACE,
        **{name: Column("double", f"{MEANINGS[name]}; 0 to 1") for name in SCORES},
    },
    "texts": {
        "sample": Column("int", "number of the text; it was drawn with the seeds (seed, sample)"),
        "position": Column("int", "place in the text, from 0"),
        "token_id": Column("int", "token that was read"),
    },
}


class RandomRepeat(StudyDefinition):
    """The probe of induction, duplicate-token and previous-token heads."""

    title = "Random repeat"
    question = "Which heads copy what followed before, find the same token again, or look one token back?"
    Parameters = Parameters
    tables = TABLES

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        n = parameters.n_tokens
        if model.max_positions is not None and n > model.max_positions:
            raise Refused(f"Two copies take {n:,} tokens and the model takes {model.max_positions:,}. Shorten them.")
        require_one_stack(model, "Random repeat")
        first_token(model, parameters)
        pool = len(ordinary_tokens(model))
        if pool < parameters.length:
            raise Refused(
                f"A copy of {parameters.length:,} different tokens was asked for and the vocabulary has {pool:,} "
                "ordinary ones. Shorten the copy."
            )
        one = estimate(model, n, Options(exact_maps="auto"))
        seconds, disk = parameters.samples * (RUN_SECONDS + work(model, n) / speed(model)), 1.0
        if parameters.keep_analyses:
            seconds, disk = seconds + parameters.samples * one.seconds, disk + parameters.samples * one.disk_mb
        words = f"{parameters.samples:,} texts of {n:,} tokens · about {duration(seconds)} · {disk:,.0f} MB on disk"
        return Plan(parameters.samples, n, seconds, one.memory_mb, disk, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        ids = text_of(model, parameters, number)
        rows: list[Row] = []

        def on_layer(layer: LayerCapture) -> None:
            where.stop_if_cancelled()
            rows.extend(rows_of(layer, parameters.length))

        inputs = {"input_ids": torch.tensor([ids], device=model.device)}
        if model.causal:
            inputs["use_cache"] = False
        with torch.inference_mode(), capture(model, NOTHING_BUT_LSE, on_layer=on_layer):
            model.model(**inputs)
        where.stop_if_cancelled()
        texts = [{"position": position, "token_id": token} for position, token in enumerate(ids)]
        return RunResult({"scores": rows, "texts": texts}, self._members(model, parameters, ids, where))

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        by_head: dict[tuple, list[Row]] = {}
        samples, texts = [], []
        for number, result in enumerate(results):
            texts += [{"sample": number, **row} for row in result.rows["texts"]]
            for row in result.rows["scores"]:
                place = {name: row[name] for name in PLACE}
                by_head.setdefault(tuple(place.values()), []).append(row)
                samples.append({"sample": number, **place, **{name: row[name] for name in SCORES}})
        scores = [
            {**dict(zip(PLACE, place, strict=True)), "samples": len(rows), **summary(rows)}
            for place, rows in by_head.items()
        ]
        return {"scores": scores, "samples": samples, "texts": texts}

    def _members(
        self, model: LoadedModel, parameters: Parameters, ids: list[int], where: Surroundings
    ) -> tuple[str, ...]:
        """The stored analysis of a text, where they are kept; one that a killed run stored before is found again."""
        if not parameters.keep_analyses:
            return ()

        def cancelled() -> bool:
            where.stop_if_cancelled()
            return False

        kept = analyse(
            model,
            ids,
            library=where.library,
            visibility=where.visibility,
            owner=where.owner,
            made_of=where.made_of,
            cancel=cancelled,
        )
        return (kept.id,)


def text_of(model: LoadedModel, parameters: Parameters, number: int) -> list[int]:
    """Token ids of one text. The tokens of a copy differ from each other, so that every row has one target."""
    draw = np.random.default_rng([parameters.seed, number])
    copy = draw.choice(ordinary_tokens(model), size=parameters.length, replace=False).tolist()
    return [first_token(model, parameters), *copy, *copy]


def ordinary_tokens(model: LoadedModel) -> list[int]:
    """All ids of the vocabulary that are not special."""
    size, special = model.config.vocab_size, set()
    if model.tokenizer is not None:
        size = min(size, len(model.tokenizer))
        special |= set(model.tokenizer.all_special_ids)
        added = getattr(model.tokenizer, "added_tokens_decoder", {})
        special |= {token_id for token_id, token in added.items() if token.special}
    for name in ("bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id", "mask_token_id"):
        value = getattr(model.config, name, None)
        special |= set(value if isinstance(value, list | tuple) else [value])
    return [token_id for token_id in range(size) if token_id not in special]


def first_token(model: LoadedModel, parameters: Parameters) -> int:
    """The id before the copies; Refused where the model names none."""
    if parameters.first_token is not None:
        if not 0 <= parameters.first_token < model.config.vocab_size:
            raise Refused(
                f"first_token: expected an id from 0 to {model.config.vocab_size - 1}, got {parameters.first_token}."
            )
        return parameters.first_token
    for source in (model.tokenizer, model.config):
        for name in ("bos_token_id", "cls_token_id"):
            value = getattr(source, name, None)
            if isinstance(value, int):
                return value
    if model.eos_token_id is None:
        raise Refused("This model names no first token. Give the id of one as first_token.")
    return model.eos_token_id


def targets(length: int) -> dict[str, tuple[Tensor, Tensor]]:
    """score -> (rows, columns) of its target cells: int64."""
    second = torch.arange(length + 1, 2 * length + 1)
    first = torch.arange(1, length + 1)
    every = torch.arange(1, 2 * length + 1)
    return {
        "induction": (torch.cat([second, first[:-1]]), torch.cat([second - length + 1, first[:-1] + length + 1])),
        "duplicate_token": (torch.cat([second, first]), torch.cat([second - length, first + length])),
        "previous_token": (every, every - 1),
    }


def rows_of(layer: LayerCapture, length: int) -> list[Row]:
    """The scores of every head of a layer, and those of uniform attention; None where no target is visible."""
    n, heads = layer.query.shape[2], layer.info.heads
    found = {name: torch.zeros(3, heads, dtype=torch.float64) for name in SCORES}  # weights, uniform, targets
    for start in range(0, n, ROWS_AT_ONCE):
        window = slice(start, min(start + ROWS_AT_ONCE, n)), slice(0, n)
        mass = weights(layer.query, layer.key, layer.score, layer.lse, *window)[0].double().cpu()  # [H, rows, N]
        seen = visible(layer.score, n, n, *window)[0].cpu().expand(heads, -1, -1)
        uniform = seen / seen.sum(-1, keepdim=True).clamp(min=1)
        for name, (rows, columns) in targets(length).items():
            here = (rows >= start) & (rows < window[0].stop)
            cell = slice(None), rows[here] - start, columns[here]
            found[name] += torch.stack([values[cell].double().sum(-1) for values in (mass * seen, uniform, seen)])
    return [
        {
            **{name: getattr(layer.info, name) for name in ("kind", "layer")},
            "head": head,
            **{name: ratio(found[name][0, head], found[name][2, head]) for name in SCORES},
            **{f"{name}_uniform": ratio(found[name][1, head], found[name][2, head]) for name in SCORES},
        }
        for head in range(heads)
    ]


def ratio(above: Tensor, below: Tensor) -> float | None:
    """A mean; None without anything to average, or where the head gave no number."""
    value = float(above) / float(below) if below > 0 else math.nan
    return value if math.isfinite(value) else None


def summary(rows: Sequence[Row]) -> Row:
    """Mean, standard error and uniform value of every score of one head over its samples."""
    result: Row = {}
    for name in SCORES:
        values = [row[name] for row in rows if row[name] is not None]
        uniform = [row[f"{name}_uniform"] for row in rows if row[f"{name}_uniform"] is not None]
        result[name] = fmean(values) if values else None
        result[f"{name}_error"] = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        result[f"{name}_uniform"] = fmean(uniform) if uniform else None
    return result


STUDY = RandomRepeat()

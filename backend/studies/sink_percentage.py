"""Sink percentage of a model by the published protocol (K-01): natural, random and repeated tokens.

Every text is cut to `length` tokens. Natural texts are tokenised as the model's tokenizer does it, begin of text
included where it puts one; random texts are ordinary tokens drawn alike, repeated ones a single ordinary token over and
over, both without a begin of text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from backend import prompt_sets
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import estimate, speed, work
from backend.models import LoadedModel
from backend.options import Options
from backend.prompts import tokenise
from backend.sinks.measured import MeasuredLayer, measured
from backend.sinks.percentage import sink_percentage
from backend.sinks.published import EPSILON, LENGTH
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.studies.random_repeat import ordinary_tokens
from backend.studies.refusals import require_length, require_one_stack

SETS = ("natural", "random", "repeated")
TOGETHER = 8  # texts of one forward pass, which is one run
RUN_SECONDS = 0.1  # what a run takes however short it is


@dataclass(frozen=True)
class Parameters:
    """What a person may choose. The protocol's own: 64 tokens, epsilon 0.3, 100 samples."""

    sets: tuple[str, ...] = SETS
    samples: int = 32  # texts of each set
    length: int = LENGTH  # tokens of each text
    epsilon: float = EPSILON
    seed: int = 0
    texts: tuple[str, ...] = ()  # natural texts of one's own; none = the forty that come with Headwater

    def __post_init__(self) -> None:
        object.__setattr__(self, "sets", tuple(self.sets))
        object.__setattr__(self, "texts", tuple(self.texts))
        if not self.sets or len(set(self.sets)) < len(self.sets) or not set(self.sets) <= set(SETS):
            raise Refused(f"sets: expected some of {', '.join(SETS)}, each once, got {', '.join(map(str, self.sets))}.")
        for name, least in (("samples", 1), ("length", 2), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise Refused(f"{name}: expected a whole number of {least} or more, got {value!r}.")
        if not isinstance(self.epsilon, int | float) or not 0 <= self.epsilon < 1:
            raise Refused(f"epsilon: expected a number from 0 to below 1, got {self.epsilon!r}.")

    @property
    def runs_per_set(self) -> int:
        """Forward passes of one set."""
        return math.ceil(self.samples / TOGETHER)


PLACE = {
    "kind": Column("text", "side of the model, see the table layers of an analysis"),
    "layer": Column("int", "the model's own number"),
    "head": Column("int", "query head"),
}
SET = Column("text", "natural, random or repeated")
TABLES = {
    "summary": {
        "set": SET,
        "samples": Column("int", "texts that were read"),
        "percent": Column("double", "heads whose first token is above epsilon, mean over samples, 0 to 100"),
        "low": Column("double", "lower end of the 95 % interval (bootstrap over samples); null for one sample"),
        "high": Column("double", "upper end"),
        "uniform": Column("double", "importance of the first token under uniform attention, mean over layers"),
        "learned": Column("double", "mean mass on learned sinks, 0 without them"),
    },
    "heads": {
        "set": SET,
        **PLACE,
        "importance": Column("double", "importance of the first token, mean over samples, 0 to 1"),
        "error": Column("double", "standard error over samples; null for one sample"),
        "above": Column("double", "share of the samples where it is above epsilon"),
        "learned": Column("double", "mean mass on the learned sink, 0 without one"),
    },
    "samples": {
        "set": SET,
        "sample": Column("int", "number of the text in its set"),
        **PLACE,
        "importance": Column("double", "importance of the first token, 0 to 1; null where no row sees it"),
    },
    "texts": {
        "set": SET,
        "sample": Column("int", "number of the text in its set"),
        "position": Column("int", "place in the text, from 0"),
        "token_id": Column("int", "token that was read"),
    },
}


class SinkPercentage(StudyDefinition):
    """The published measure of how far a model has attention sinks."""

    title = "Sink percentage"
    question = "In how many heads does the first token get more than epsilon of the attention?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        return f"{parameters.samples} texts of {parameters.length} tokens: {', '.join(parameters.sets)}"

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        n = parameters.length
        require_length(model, n, "A text")
        require_one_stack(model, "Sink percentage")
        for name in parameters.sets:
            texts_of(model, parameters, name, [0, parameters.samples - 1])
        runs = len(parameters.sets) * parameters.runs_per_set
        together = min(TOGETHER, parameters.samples)
        texts = len(parameters.sets) * parameters.samples
        seconds = runs * RUN_SECONDS + 0.5 * texts * work(model, n) / speed(model)
        memory = together * estimate(model, n, Options(exact_maps="none")).memory_mb
        words = f"{texts:,} texts of {n:,} tokens · about {duration(seconds)} · 1 MB on disk"
        return Plan(runs, n, seconds, memory, 1.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        name = parameters.sets[number // parameters.runs_per_set]
        first = number % parameters.runs_per_set * TOGETHER
        numbers = list(range(first, min(first + TOGETHER, parameters.samples)))
        texts = texts_of(model, parameters, name, numbers)
        layers = measured(model, texts, where.stop_if_cancelled)
        where.stop_if_cancelled()
        read = [
            {"set": name, "sample": sample, "position": position, "token_id": token}
            for sample, ids in zip(numbers, texts, strict=True)
            for position, token in enumerate(ids)
        ]
        rows = [row for layer in layers for row in rows_of(name, numbers, layer)]
        return RunResult({"samples": rows, "texts": read})

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        rows = [row for result in results for row in result.rows["samples"]]
        summary, heads = [], []
        for name in parameters.sets:
            own = [row for row in rows if row["set"] == name]
            summary.append(summary_of(name, own, parameters.epsilon))
            heads += heads_of(name, own, parameters.epsilon)
        return {
            "summary": summary,
            "heads": heads,
            "samples": [{column: row[column] for column in TABLES["samples"]} for row in rows],
            "texts": [row for result in results for row in result.rows["texts"]],
        }


def texts_of(model: LoadedModel, parameters: Parameters, name: str, numbers: Sequence[int]) -> list[list[int]]:
    """Token ids of some texts of a set, each of `length` tokens. Refused where there are not enough of them."""
    if name == "natural":
        return [natural_text(model, parameters, number) for number in numbers]
    pool, length = ordinary_tokens(model), parameters.length
    draws = [np.random.default_rng([parameters.seed, SETS.index(name), number]) for number in numbers]
    if name == "random":
        return [draw.choice(pool, size=length).tolist() for draw in draws]
    return [[int(draw.choice(pool))] * length for draw in draws]


def natural_text(model: LoadedModel, parameters: Parameters, number: int) -> list[int]:
    """The first tokens of one natural text. Refused where the set is too small or the text too short."""
    if model.tokenizer is None:
        raise Refused(f"{model.name} came without a tokenizer: natural texts cannot be read. Leave that set out.")
    texts = parameters.texts or prompt_sets.natural().texts
    if number >= len(texts):
        raise Refused(
            f"{parameters.samples} natural texts were asked for and the set has {len(texts)}. Ask for fewer, or give "
            "more texts of your own."
        )
    ids = tokenise(model.tokenizer, texts[number], add_special=True, parse_special=False)["input_ids"]
    if len(ids) < parameters.length:
        raise Refused(
            f"Natural text {number + 1} has {len(ids)} tokens and {parameters.length} were asked for. Shorten the "
            "length, or leave that text out."
        )
    return ids[: parameters.length]


def rows_of(name: str, numbers: Sequence[int], layer: MeasuredLayer) -> list[Row]:
    """One row per text and head of a layer."""
    first, level = layer.importance[:, :, 0], layer.uniform[0]
    return [
        {
            "set": name,
            "sample": sample,
            "kind": layer.info.kind,
            "layer": layer.info.layer,
            "head": head,
            "importance": defined(first[place, head]),
            "uniform": defined(level),
            "learned": float(layer.learned[place, head]),
        }
        for place, sample in enumerate(numbers)
        for head in range(layer.info.heads)
    ]


def defined(value: float) -> float | None:
    """A number, or None for NaN."""
    return float(value) if math.isfinite(value) else None


def summary_of(name: str, rows: Sequence[Row], epsilon: float) -> Row:
    """The percentage of one set."""
    found = sink_percentage(first_of(rows), epsilon)
    levels = [row["uniform"] for row in rows if row["uniform"] is not None]
    return {
        "set": name,
        "samples": found.samples,
        "percent": found.percent,
        "low": found.low,
        "high": found.high,
        "uniform": fmean(levels) if levels else None,
        "learned": fmean(row["learned"] for row in rows),
    }


def first_of(rows: Sequence[Row]) -> np.ndarray:
    """Importance of the first token: [samples, heads], NaN where undefined. Rows of one set, from the table samples."""
    places = {place: at for at, place in enumerate(sorted({(r["kind"], r["layer"], r["head"]) for r in rows}))}
    samples = {sample: at for at, sample in enumerate(sorted({row["sample"] for row in rows}))}
    grid = np.full((len(samples), len(places)), np.nan)
    for row in rows:
        if row["importance"] is not None:
            grid[samples[row["sample"]], places[row["kind"], row["layer"], row["head"]]] = row["importance"]
    return grid


def heads_of(name: str, rows: Sequence[Row], epsilon: float) -> list[Row]:
    """Mean and spread of every head over the samples of one set."""
    by_head: dict[tuple, list[Row]] = {}
    for row in rows:
        by_head.setdefault(tuple(row[column] for column in PLACE), []).append(row)
    found = []
    for place, own in by_head.items():
        values = [row["importance"] for row in own if row["importance"] is not None]
        found.append(
            {
                "set": name,
                **dict(zip(PLACE, place, strict=True)),
                "importance": fmean(values) if values else None,
                "error": stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None,
                "above": sum(value > epsilon for value in values) / len(values) if values else None,
                "learned": fmean(row["learned"] for row in own),
            }
        )
    return found


STUDY = SinkPercentage()

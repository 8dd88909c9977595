"""Do the sinks hold over a set of prompts? Every prompt is read at several lengths; mean, spread, kinds of token.

A prompt that is shorter than a length is not measured at it. Length 0 is the whole prompt, cut to `longest` tokens.
"""

from __future__ import annotations

import math
from collections import Counter
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
from backend.sinks.detection import EPSILON, LEAST_ROWS, THETA, above
from backend.sinks.measured import MeasuredLayer, measured
from backend.sinks.percentage import per_sample_percent
from backend.sinks.token_types import token_types
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.studies.refusals import require_one_stack
from backend.tokens import token_table

MOST_LENGTHS = 8


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    texts: tuple[str, ...] = ()  # none = the forty that come with Headwater
    left_out: tuple[tuple[int, str], ...] = ()  # lines of the set that could not be read: number, reason
    name: str = "the texts that come with Headwater"
    lengths: tuple[int, ...] = (16, 32, 64)
    longest: int = 512
    epsilon: float = EPSILON
    theta: float = THETA
    least_rows: int = LEAST_ROWS
    times: float | None = None  # of the median of a head, instead of theta

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(self.texts))
        object.__setattr__(self, "left_out", tuple((int(line), str(reason)) for line, reason in self.left_out))
        object.__setattr__(self, "lengths", tuple(sorted(set(self.lengths))))
        if len(self.lengths) > MOST_LENGTHS or not all(isinstance(one, int) and one >= 2 for one in self.lengths):
            raise Refused(f"lengths: expected up to {MOST_LENGTHS} whole numbers of 2 or more, got {self.lengths}.")
        for name in ("longest", "least_rows"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise Refused(f"{name}: expected a whole number of 1 or more, got {value!r}.")
        for name in ("epsilon", "theta"):
            if not 0 <= getattr(self, name) < 1:
                raise Refused(f"{name}: expected a number from 0 to below 1, got {getattr(self, name)!r}.")

    @property
    def prompts(self) -> tuple[str, ...]:
        """The texts that are read."""
        return self.texts or prompt_sets.natural().texts


NOTE = Column("text", "why it was not measured; null where it was")
TABLES = {
    "prompts": {
        "prompt": Column("int", "number of the prompt in the set, from 0"),
        "begins": Column("text", "its first characters"),
        "length": Column("int", "tokens that were read of it; 0 in rows of the whole prompt that was not measured"),
        "whole": Column("int", "1 where it was read as a whole (up to the longest), 0 where it was cut to a length"),
        "note": NOTE,
        "percent": Column("double", "heads whose first token is above epsilon, 0 to 100"),
        "sink_tokens": Column("int", "positions that are sinks of some head; null where no key has enough rows"),
        "sink_mass": Column("double", "share of all attention on detected sinks, mean over heads; null likewise"),
        "uniform": Column("double", "importance of the first token under uniform attention"),
        "first_type": Column("text", "kind of the first token"),
    },
    "lengths": {
        "length": Column("int", "tokens; 0 = whole prompts"),
        "prompts": Column("int", "prompts that have so many"),
        "percent": Column("double", "sink heads, mean over prompts, 0 to 100"),
        "spread": Column("double", "standard deviation over prompts; null for one prompt"),
        "low": Column("double", "smallest"),
        "high": Column("double", "largest"),
        "sink_mass": Column("double", "share of all attention on detected sinks, mean over prompts; null likewise"),
        "uniform": Column("double", "importance of the first token under uniform attention, mean over prompts"),
    },
    "heads": {
        "layer": Column("int", "the model's own number"),
        "head": Column("int", "query head"),
        "importance": Column("double", "importance of the first token, mean over whole prompts"),
        "spread": Column("double", "standard deviation over prompts; null for one prompt"),
        "above": Column("double", "share of the prompts where it is above epsilon"),
    },
    "types": {
        "type": Column("text", "kind of token"),
        "pairs": Column("int", "pairs of a head and its sink, over all whole prompts"),
        "tokens": Column("int", "tokens of this kind that enough rows see"),
    },
    "left_out": {
        "line": Column("int", "line of the set, from 1"),
        "reason": Column("text", "why it could not be read"),
    },
}


class SinkSets(StudyDefinition):
    """Sinks over a set of prompts."""

    title = "Sinks over prompts"
    question = "Do the sinks of this model hold over a set of prompts, and over their lengths?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        return f"{len(parameters.prompts)} prompts: {parameters.name}"

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        if model.tokenizer is None:
            raise Refused(f"{model.name} came without a tokenizer: a set of texts cannot be read.")
        require_one_stack(model, "Sinks over prompts")
        sizes = [len(ids_of(model, parameters, number)) for number in range(len(parameters.prompts))]
        longest = max(sizes)
        tokens = sum(work(model, max(size, 1)) for size in sizes)
        tokens += sum(work(model, length) for length in parameters.lengths for size in sizes if size > length)
        seconds = 0.1 * len(sizes) * (1 + len(parameters.lengths)) + tokens / speed(model)
        memory = 2 * estimate(model, max(longest, 2), Options(exact_maps="none")).memory_mb
        left = f" · {len(parameters.left_out)} lines left out" if parameters.left_out else ""
        span = f"{longest:,}" if min(sizes) == longest else f"{min(sizes):,} to {longest:,}"
        words = f"{len(sizes)} prompts of {span} tokens · about {duration(seconds)}{left}"
        return Plan(len(sizes), max(longest, 1), seconds, memory, 1.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        ids = ids_of(model, parameters, number)
        begins = " ".join(parameters.prompts[number].split())[:60]
        base = {**dict.fromkeys(TABLES["prompts"]), "prompt": number, "begins": begins}
        rows: dict[str, list[Row]] = {"prompts": [], "heads": [], "types": []}
        for length in (*parameters.lengths, 0):
            place = {**base, "length": length or len(ids), "whole": int(length == 0)}
            if not ids or length > len(ids):
                reason = "it gives no token" if not ids else f"it has {len(ids)} tokens"
                rows["prompts"].append({**place, "note": f"Not measured because {reason}."})
                continue
            layers = measured(model, [ids[: length or len(ids)]], where.stop_if_cancelled)
            where.stop_if_cancelled()
            types = token_types(token_table(model.tokenizer, ids[: length or len(ids)], "", []), bos_of(model))
            rows["prompts"].append({**place, **prompt_row(layers, parameters, types)})
            if length == 0:
                rows["heads"] = head_rows(layers)
                rows["types"] = type_rows(layers, parameters, types)
        return RunResult(rows)

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        prompts = [row for result in results for row in result.rows["prompts"]]
        counts: dict[str, Counter] = {"pairs": Counter(), "tokens": Counter()}
        for result in results:
            for row in result.rows["types"]:
                for name, into in counts.items():
                    into[row["type"]] += row[name]
        return {
            "prompts": prompts,
            "lengths": [length_row(prompts, length) for length in (*parameters.lengths, 0)],
            "heads": combined_heads(results, parameters.epsilon),
            "types": [
                {"type": kind, "pairs": counts["pairs"][kind], "tokens": count}
                for kind, count in counts["tokens"].most_common()
            ],
            "left_out": [{"line": line, "reason": reason} for line, reason in parameters.left_out],
        }


def ids_of(model: LoadedModel, parameters: Parameters, number: int) -> list[int]:
    """Tokens of one prompt, cut to the longest that is read."""
    text = parameters.prompts[number]
    ids = tokenise(model.tokenizer, text, add_special=True, parse_special=False)["input_ids"]
    return ids[: min(parameters.longest, model.max_positions or parameters.longest)]


def bos_of(model: LoadedModel) -> int | None:
    """Id of the model's begin of text."""
    return getattr(model.tokenizer, "bos_token_id", None)


def sinks_of(layer: MeasuredLayer, parameters: Parameters) -> np.ndarray:
    """Detected sinks of the one text of a batch: bool [H, N]."""
    return above(layer.importance[0], layer.rows[0], parameters.theta, parameters.least_rows, parameters.times)


def prompt_row(layers: Sequence[MeasuredLayer], parameters: Parameters, types: list[str]) -> Row:
    """What one reading found."""
    first = np.concatenate([layer.importance[0, :, 0] for layer in layers])
    known = any((layer.rows[0] >= parameters.least_rows).any() for layer in layers)
    sinks = np.concatenate([sinks_of(layer, parameters) for layer in layers])
    received = np.concatenate([np.nan_to_num(layer.importance[0]) * layer.rows[0] for layer in layers])
    levels = [float(layer.uniform[0]) for layer in layers if math.isfinite(layer.uniform[0])]
    return {
        "percent": float(per_sample_percent(first[None], parameters.epsilon)[0]),
        "sink_tokens": int(sinks.any(0).sum()) if known else None,
        "sink_mass": float((received * sinks).sum() / (len(sinks) * len(types))) if known else None,
        "uniform": fmean(levels) if levels else None,
        "first_type": types[0],
    }


def head_rows(layers: Sequence[MeasuredLayer]) -> list[Row]:
    """Importance of the first token in every head of one prompt; heads whose rows do not see it are left out."""
    return [
        {"layer": layer.info.layer, "head": head, "importance": float(layer.importance[0, head, 0])}
        for layer in layers
        for head in range(layer.info.heads)
        if math.isfinite(layer.importance[0, head, 0])
    ]


def type_rows(layers: Sequence[MeasuredLayer], parameters: Parameters, types: list[str]) -> list[Row]:
    """Sinks and eligible tokens of one prompt by kind."""
    pairs = sum(sinks_of(layer, parameters).sum(0) for layer in layers)
    eligible = np.any([(layer.rows[0] >= parameters.least_rows).any(0) for layer in layers], 0)
    kinds = np.array(types)
    return [
        {"type": kind, "pairs": int(pairs[kinds == kind].sum()), "tokens": int(eligible[kinds == kind].sum())}
        for kind in dict.fromkeys(types)
    ]


def length_row(prompts: Sequence[Row], length: int) -> Row:
    """Mean and spread over the prompts that have this length; 0 = whole prompts."""
    own = [row for row in prompts if row["note"] is None and (row["whole"] if length == 0 else row["length"] == length)]
    own = own if length == 0 else [row for row in own if not row["whole"]]
    values = [row["percent"] for row in own]
    masses = [row["sink_mass"] for row in own if row["sink_mass"] is not None]
    levels = [row["uniform"] for row in own if row["uniform"] is not None]
    return {
        "length": length,
        "prompts": len(own),
        "percent": fmean(values) if values else None,
        "spread": stdev(values) if len(values) > 1 else None,
        "low": min(values, default=None),
        "high": max(values, default=None),
        "sink_mass": fmean(masses) if masses else None,
        "uniform": fmean(levels) if levels else None,
    }


def combined_heads(results: Sequence[RunResult], epsilon: float) -> list[Row]:
    """Every head over all whole prompts."""
    by_head: dict[tuple[int, int], list[float]] = {}
    for result in results:
        for row in result.rows["heads"]:
            by_head.setdefault((row["layer"], row["head"]), []).append(row["importance"])
    return [
        {
            "layer": layer,
            "head": head,
            "importance": fmean(values),
            "spread": stdev(values) if len(values) > 1 else None,
            "above": sum(value > epsilon for value in values) / len(values),
        }
        for (layer, head), values in sorted(by_head.items())
    ]


STUDY = SinkSets()

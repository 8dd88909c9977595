"""Calibration: which documents matter to the question once the place is taken out?

Run 0 reads the prompt as it is. Run k reads it with a dummy of the same length in place k: what the dummy gets is what
the place gives (found in the middle, B-04). The cheap approximation needs one run, with dummies everywhere. The last
run asks "N/A" instead of the question (R-02). Sinks are those of run 0, at the same positions in every run. A run reads
only what differs from run 0, from the first changed token on, where the model allows it exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from backend.basins.calibration import DUMMY, NULL_QUERY, calibrated, null_calibrated, with_dummies
from backend.basins.measured import AllSinks, Measured, measure
from backend.basins.orders import prompt_from
from backend.basins.passes import why_not_reusable
from backend.basins.readings import forget, prefix_of
from backend.basins.relevance import ranking, scores
from backend.basins.slots import Slot, Slots, slots_of
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import estimate, speed, work
from backend.models import LoadedModel
from backend.options import Options
from backend.prompts import EncodedPrompt, Prompt, encode, tokenise
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.studies.refusals import require_one_stack

RUN_SECONDS = 0.15
LOOKS = ("question", "last")
METHODS = {
    "raw": "share per token, as it is",
    "top": "mean of the ten strongest tokens, as it is",
    "total": "share of the whole part, as it is",
    "calibrated": "share per token beyond that of a dummy at the same place (one dummy run per place)",
    "cheap": "the same with dummies at all places at once (approximation)",
    "null_query": "sum over tokens beyond what they get under the question N/A",
}


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    prompt: dict | None = None
    sinkfree: bool = True
    dummy: str = DUMMY  # the neutral text; repeated and cut to the length of what it replaces

    def __post_init__(self) -> None:
        if not isinstance(self.dummy, str) or not self.dummy.strip():
            raise Refused("dummy: expected some neutral text.")


SHARE = "mean over heads, share per token"
TABLES = {
    "scores": {
        "looking": Column("text", "which rows look: question, or last (the last token)"),
        "part": Column("int", "number of the part, from 0"),
        "tokens": Column("int", "its length"),
        "dummy": Column("double", f"what a dummy gets at its place; {SHARE}"),
        "cheap_dummy": Column("double", f"the same with dummies everywhere; {SHARE}"),
        **{name: Column("double", words) for name, words in METHODS.items()},
    },
    "rankings": {
        "looking": Column("text", "which rows look"),
        "method": Column("text", "column of the table scores"),
        "place": Column("int", "0 = ranked first"),
        "part": Column("int", "number of the part"),
    },
    "heads": {
        "looking": Column("text", "which rows look"),
        "layer": Column("int", "the model's own number"),
        "head": Column("int", "query head"),
        "part": Column("int", "number of the part"),
        "raw": Column("double", "share per token of this head; null out of reach"),
        "dummy": Column("double", "what a dummy gets there"),
    },
    "tokens": {
        "position": Column("int", "place in the prompt"),
        "question": Column("double", "weight from the question, mean over heads; null at sinks of every head"),
        "null": Column("double", "weight from the null query"),
    },
}


class Calibration(StudyDefinition):
    """Three rankings of the documents."""

    title = "Calibration of the parts"
    question = "Which parts matter to the question once their place is taken out?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        return str((parameters.prompt or {}).get("question") or (parameters.prompt or {}).get("text") or "")

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        prompt, encoded, slots = read_prompt(model, parameters)
        null_prompt(prompt, parameters)
        n, reuse = len(encoded.token_ids), why_not_reusable(model)
        one = estimate(model, n, Options(exact_maps="none"))
        whole = work(model, n) / speed(model)
        parts = [1.0, *(1 - (part.start / n if reuse is None else 0) for part in slots.parts)]
        parts += [parts[1], 0.1 if reuse is None else 1.0]
        seconds = sum(RUN_SECONDS + share * whole for share in parts)
        saved = f"a run reads from the first changed token on ({sum(parts):.1f} whole readings)"
        words = saved if reuse is None else f"every run is a whole reading, because {reuse}"
        sentence = f"{len(parts)} runs of {n:,} tokens · {words} · about {duration(seconds)} · 1 MB on disk"
        return Plan(len(parts), n, seconds, 2 * one.memory_mb, 1.0, sentence)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        prompt, encoded, slots = read_prompt(model, parameters)
        count = len(slots)
        changed, rows_of = encoded.token_ids, slots
        if number == count + 2:
            asked = encode(model, null_prompt(prompt, parameters))
            changed, rows_of = asked.token_ids, slots_of(asked.segments, asked.tokens)
        elif number > 0:
            which = range(count) if number == count + 1 else [number - 1]
            changed = with_dummies(changed, slots, filler(model, parameters), which)
        prefix = prefix_of(model, encoded.token_ids) if number and why_not_reusable(model) is None else None
        sinks = None if number == 0 else sinks_of_run(where.earlier[0], rows_of)
        found = measure(
            model,
            changed,
            rows_of,
            sinks=sinks,
            prefix=prefix,
            sinkfree=parameters.sinkfree,
            stop=where.stop_if_cancelled,
        )
        where.stop_if_cancelled()
        which = range(count) if number in (0, count + 1) else [] if number == count + 2 else [number - 1]
        return RunResult(
            {
                "lengths": [{"part": part, "tokens": slot.length} for part, slot in enumerate(slots.parts)],
                "heads": head_rows(found, rows_of, which),
                "tokens": token_rows(found, number, slots),
                "sinks": [{"layer": a, "head": b, "keys": list(keys)} for (a, b), keys in found.sinks.items() if keys]
                if number == 0
                else [],
                "parts": [{"start": part.start, "stop": part.stop} for part in slots.parts],
            }
        )

    def leave(self, model: LoadedModel) -> None:
        forget(model)

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        given, dummies, everywhere, null = results[0], results[1:-2], results[-2], results[-1]
        parts = tuple(Slot(str(n), row["start"], row["stop"]) for n, row in enumerate(given.rows["parts"]))
        slots = Slots("part", parts, None, 0)
        tables: dict[str, list[Row]] = {"scores": [], "rankings": [], "heads": []}
        for looking in LOOKS:
            own, far = part_means(given, looking, len(parts)), part_means(everywhere, looking, len(parts))
            single = np.array([part_means(run, looking, len(parts))[at] for at, run in enumerate(dummies)])
            tokens = token_values(given, looking)
            found = {
                "raw": own,
                **{name: values for name, values in scores(tokens, slots).items() if name != "mean"},
                "calibrated": calibrated(own, single),
                "cheap": calibrated(own, far),
                "null_query": null_calibrated(tokens, token_values(null, looking), slots),
            }
            tables["scores"] += [
                {
                    "looking": looking,
                    "part": at,
                    "tokens": part.length,
                    "dummy": defined(single[at]),
                    "cheap_dummy": defined(far[at]),
                    **{name: defined(found[name][at]) for name in METHODS},
                }
                for at, part in enumerate(parts)
            ]
            for name in METHODS:
                order = ranking(found[name])
                tables["rankings"] += [
                    {"looking": looking, "method": name, "place": place, "part": part}
                    for place, part in enumerate(order)
                ]
            tables["heads"] += by_head(given, dummies, looking)
        pairs = zip(token_values(given, "question"), token_values(null, "question"), strict=True)
        tables["tokens"] = [
            {"position": at, "question": defined(own), "null": defined(nothing)}
            for at, (own, nothing) in enumerate(pairs)
        ]
        return tables


def read_prompt(model: LoadedModel, parameters: Parameters) -> tuple[Prompt, EncodedPrompt, Slots]:
    """Refused where the prompt has no parts or the model no rows of a question."""
    prompt = prompt_from(parameters.prompt)
    require_one_stack(model, "This study")
    encoded = encode(model, prompt)
    return prompt, encoded, slots_of(encoded.segments, encoded.tokens)


def null_prompt(prompt: Prompt, parameters: Parameters) -> Prompt:
    """The same prompt with a question that asks nothing."""
    if prompt.question is None:
        raise Refused(
            "Calibration needs a question that can be taken out, and parts that a dummy can stand for: give documents "
            "or examples with a question of its own."
        )
    return replace(prompt, question=NULL_QUERY)


def filler(model: LoadedModel, parameters: Parameters) -> list[int]:
    """The tokens of the dummy."""
    return tokenise(model.tokenizer, parameters.dummy.strip() + " ", add_special=False, parse_special=False)[
        "input_ids"
    ]


def sinks_of_run(first: RunResult, slots: Slots) -> AllSinks:
    """Sinks of run 0 that stand at the same positions here (before the question, which differs under a null query)."""
    end = slots.question.start if slots.question is not None else slots.last
    return {(row["layer"], row["head"]): tuple(key for key in row["keys"] if key < end) for row in first.rows["sinks"]}


def head_rows(found: Measured, slots: Slots, which: Sequence[int]) -> list[Row]:
    """Share per token of the chosen parts, of every head."""
    rows = []
    for looking in LOOKS:
        for at, (layer, head) in enumerate(found.places):
            shares = found.head_parts(slots, looking, at)
            rows += [
                {"looking": looking, "layer": layer, "head": head, "part": part, "share": defined(shares[part])}
                for part in which
            ]
    return rows


def token_rows(found: Measured, number: int, slots: Slots) -> list[Row]:
    """Mean over heads of the weight on every token, of the runs where it is needed."""
    if number not in (0, len(slots) + 2):
        return []
    end = slots.question.start
    means = {looking: found.mean(looking) for looking in LOOKS}
    return [{"position": at, **{name: defined(values[at]) for name, values in means.items()}} for at in range(end)]


def token_values(result: RunResult, looking: str) -> np.ndarray:
    return np.array([np.nan if row[looking] is None else row[looking] for row in result.rows["tokens"]], float)


def part_means(result: RunResult, looking: str, count: int) -> np.ndarray:
    """Mean over heads of the share of every part, [count]; NaN where the run did not measure it."""
    values: Mapping[int, list[float]] = {part: [] for part in range(count)}
    for row in result.rows["heads"]:
        if row["looking"] == looking and row["share"] is not None:
            values[row["part"]].append(row["share"])
    return np.array([np.mean(found) if found else np.nan for found in values.values()])


def by_head(given: RunResult, dummies: Sequence[RunResult], looking: str) -> list[Row]:
    """Raw and dummy share of every head and part."""
    dummy = {
        (row["layer"], row["head"], row["part"]): row["share"]
        for run in dummies
        for row in run.rows["heads"]
        if row["looking"] == looking
    }
    return [
        {
            **{name: row[name] for name in ("looking", "layer", "head", "part")},
            "raw": row["share"],
            "dummy": dummy[row["layer"], row["head"], row["part"]],
        }
        for row in given.rows["heads"]
        if row["looking"] == looking
    ]


def defined(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


STUDY = Calibration()

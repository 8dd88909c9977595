"""Prompt patterns: which patterns hold over a set of prompts, and which do not? Mean and spread of every head."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import torch

from backend import policies, prompt_sets
from backend.capture import capture
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import attention_layers, speed, work
from backend.models import LoadedModel
from backend.policies import Layer
from backend.prompts import tokenise
from backend.sparsity.concentration import keys_for
from backend.sparsity.patterns import WORDS, fit_all
from backend.sparsity.rows import MOST_CELLS, rows_from
from backend.sparsity.simulate import Simulation, check_budget
from backend.sparsity.stored_layers import context_length
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.studies.refusals import require_one_stack
from backend.types import LayerCapture
from kernels.measures import NOTHING
from kernels.window import visible, weights

HEAD_SECONDS, CELL_SECONDS = 0.003, 5e-8  # of measuring one head, and for each cell of its map; beside the forward pass
LONGEST = math.isqrt(MOST_CELLS)  # tokens: whole maps are looked at


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    samples: int = 8  # texts, the first ones of the set
    length: int = 128  # tokens of each text at most
    budget: float = 0.1  # share of the pairs at which patterns are compared
    policies: tuple[str, ...] = ("snapkv", "h2o", "streaming_llm", "random")
    keep: float = 0.25  # share of the keys that policies keep
    texts: tuple[str, ...] = ()  # texts of one's own; none = the forty that come with Headwater

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(self.texts))
        object.__setattr__(self, "policies", tuple(self.policies))
        for name, least, most in (("samples", 1, 1000), ("length", 2, LONGEST)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise Refused(f"{name}: expected a whole number from {least} to {most:,}, got {value!r}.")
        check_budget(self.budget)
        check_budget(self.keep)
        wrong = [name for name in self.policies if name not in policies.all()]
        if wrong:
            raise Refused(f"policies: expected some of {', '.join(policies.all())}, got {wrong[0]!r}.")


PLACE = {
    "kind": Column("text", "side of the model, see the table layers of an analysis"),
    "layer": Column("int", "the model's own number"),
    "head": Column("int", "query head"),
}
TABLES = {
    "heads": {
        **PLACE,
        "prompts": Column("int", "texts that were read"),
        "pattern": Column("text", "the pattern most texts have"),
        "agreement": Column("double", "share of the texts that have it"),
        "retained": Column("double", "attention that the best pattern keeps within the budget, mean over texts"),
        "retained_spread": Column("double", "its standard deviation; null for one text"),
        "share_95": Column("double", "share of the visible keys for 95 % of the attention, mean over texts"),
        "share_95_spread": Column("double", "its standard deviation; null for one text"),
    },
    "policies": {
        "policy": Column("text", "name of the policy"),
        "prompts": Column("int", "texts on which it could be computed"),
        "retained": Column("double", "attention of later rows on kept keys, mean over heads and texts"),
        "spread": Column("double", "standard deviation over texts; null for one text"),
        "least": Column("double", "the text with least"),
        "most": Column("double", "the text with most"),
    },
    "samples": {
        "sample": Column("int", "number of the text"),
        **PLACE,
        "pattern": Column("text", "its pattern on this text"),
        "retained": Column("double", "attention that the best pattern keeps within the budget"),
        "share_95": Column("double", "share of the visible keys for 95 %; null where no row sees two"),
    },
    "texts": {
        "sample": Column("int", "number of the text"),
        "position": Column("int", "place in the text, from 0"),
        "token_id": Column("int", "token that was read"),
    },
}


class PromptPatterns(StudyDefinition):
    """Sparsity over a set of prompts."""

    title = "Patterns over prompts"
    question = "Which patterns hold over a set of prompts, and which do not?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        own = "of one's own" if parameters.texts else "natural"
        return f"{parameters.samples} {own} texts of {parameters.length} tokens"

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        if model.max_positions is not None and parameters.length > model.max_positions:
            raise Refused(f"{parameters.length:,} tokens were asked for and the model takes {model.max_positions:,}.")
        layers = attention_layers(model)
        require_one_stack(model, "This study")
        texts_of(model, parameters)
        heads = sum(layer.heads for layer in layers)
        measuring = heads * (HEAD_SECONDS + CELL_SECONDS * parameters.length**2)
        one = work(model, parameters.length) / speed(model) + measuring
        seconds = parameters.samples * one
        words = f"{parameters.samples:,} texts of up to {parameters.length:,} tokens · about {duration(seconds)}"
        memory = 40 * parameters.length**2 * max(layer.heads for layer in layers) / 1e6
        return Plan(parameters.samples, parameters.length, seconds, memory, 1.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        ids = texts_of(model, parameters)[number]
        rows: list[Row] = []
        kept: list[LayerCapture] = []

        def on_layer(layer: LayerCapture) -> None:
            where.stop_if_cancelled()
            rows.extend(rows_of(layer, parameters.budget))
            if model.causal:
                kept.append(layer)

        inputs = {"input_ids": torch.tensor([ids], device=model.device)}
        if model.causal:
            inputs["use_cache"] = False
        with torch.inference_mode(), capture(model, NOTHING, on_layer=on_layer):
            model.model(**inputs)
        texts = [{"position": position, "token_id": token} for position, token in enumerate(ids)]
        return RunResult({"samples": rows, "texts": texts, "policies": policy_rows(kept, ids, parameters)})

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        numbered = [
            {table: [{"sample": number, **row} for row in result.rows[table]] for table in ("samples", "texts")}
            for number, result in enumerate(results)
        ]
        samples = [row for one in numbered for row in one["samples"]]
        by_head: dict[tuple, list[Row]] = {}
        for row in samples:
            by_head.setdefault(tuple(row[name] for name in PLACE), []).append(row)
        by_policy: dict[str, list[float]] = {}
        for result in results:
            for row in result.rows["policies"]:
                by_policy.setdefault(row["policy"], []).append(row["retained"])
        return {
            "heads": [{**dict(zip(PLACE, place, strict=True)), **summary(rows)} for place, rows in by_head.items()],
            "policies": [
                {"policy": name, "prompts": len(values), "retained": fmean(values), "spread": spread(values),
                 "least": min(values), "most": max(values)}
                for name, values in by_policy.items()
            ],
            "samples": samples,
            "texts": [row for one in numbered for row in one["texts"]],
        }  # fmt: skip


def texts_of(model: LoadedModel, parameters: Parameters) -> list[list[int]]:
    """Token ids of every text, cut to the length. Refused where the set is too small."""
    if model.tokenizer is None:
        raise Refused(f"{model.name} came without a tokenizer, so texts cannot be read.")
    texts = parameters.texts or prompt_sets.natural().texts
    if len(texts) < parameters.samples:
        raise Refused(f"{parameters.samples} texts were asked for and the set has {len(texts)}. Ask for fewer.")
    ids = [
        tokenise(model.tokenizer, text, add_special=True, parse_special=False)["input_ids"][: parameters.length]
        for text in texts[: parameters.samples]
    ]
    short = next((at for at, one in enumerate(ids) if not one), None)
    if short is not None:
        raise Refused(f"Text {short + 1} holds no token. Leave it out.")
    return ids


def rows_of(layer: LayerCapture, budget: float) -> list[Row]:
    """Pattern and concentration of every head of a layer."""
    n_query, n_key, every = layer.query.shape[2], layer.key.shape[2], slice(0, None)
    maps = weights(layer.query, layer.key, layer.score, layer.lse, every, every)[0].double().cpu().numpy()
    seen = visible(layer.score, n_query, n_key, every, every)[0].cpu().expand(maps.shape).numpy()
    found = []
    for head, (own, cells) in enumerate(zip(maps, seen, strict=True)):
        rows = rows_from(own, cells, np.arange(n_query))
        decision, several = fit_all(rows, budget), rows.counts >= 2
        share = keys_for(rows, 0.95)[several] / rows.counts[several]
        place = {"kind": layer.info.kind, "layer": layer.info.layer, "head": head}
        measured = {"pattern": decision.name, "retained": decision.best}
        found.append({**place, **measured, "share_95": float(share.mean()) if len(share) else None})
    return found


def policy_rows(kept: list[LayerCapture], ids: list[int], parameters: Parameters) -> list[Row]:
    """What each policy retains on this text; none for models that read both ways and for texts of one token."""
    if not kept or len(ids) < 2 or not parameters.policies:
        return []
    n = context_length(len(ids))
    layers = [lambda at=at, one=one: policy_layer(one, at, len(kept), n) for at, one in enumerate(kept)]
    made = Simulation.of(layers, parameters.policies)
    return [{"policy": one.policy, "retained": one.retained} for one in made.outcomes(parameters.keep)]


def policy_layer(layer: LayerCapture, place: int, layers: int, n: int) -> Layer:
    norm = torch.linalg.vector_norm(layer.value[0].float(), dim=-1)
    return Layer(layer.info.layer, place, layers, n, layer.query[0], layer.key[0], layer.lse[0], layer.score, norm)


def summary(rows: Sequence[Row]) -> Row:
    """Mean and spread of one head over texts, and its most common pattern (of equals the simpler one)."""
    counts = Counter(row["pattern"] for row in rows)
    pattern = max(WORDS, key=lambda name: counts[name])
    shares = [row["share_95"] for row in rows if row["share_95"] is not None]
    kept = [row["retained"] for row in rows]
    return {
        "prompts": len(rows),
        "pattern": pattern,
        "agreement": counts[pattern] / len(rows),
        "retained": fmean(kept),
        "retained_spread": spread(kept),
        "share_95": fmean(shares) if shares else None,
        "share_95_spread": spread(shares),
    }


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation; None for one value."""
    return stdev(values) if len(values) > 1 else None


STUDY = PromptPatterns()

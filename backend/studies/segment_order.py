"""Order of segments: does an embedding keep what comes first and lose what comes last?

An encoder reads the parts of a text in cyclic shifts; each part is embedded alone as well. If the cosine between a part
and the whole falls with its place, place decides what the embedding keeps (B-08). Beside it: where the pooling rows
look, in ten equal bins of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from backend.basins.captured import layer_rows
from backend.basins.embedding import BINS, cosine, front_loading, place_effect, position_bins
from backend.basins.orders import cyclic, ordered, parts_of, prompt_from
from backend.basins.slots import slots_of
from backend.capture import capture
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import attention_layers, estimate, speed, work
from backend.models import LoadedModel
from backend.options import Options
from backend.prompts import encode
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.types import LayerCapture
from kernels.measures import NOTHING

RUN_SECONDS = 0.1
POOLING = ("mean", "first")


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    prompt: dict | None = None
    pooling: str = "mean"  # how the model makes one vector: mean of all tokens, or the first one

    def __post_init__(self) -> None:
        if self.pooling not in POOLING:
            raise Refused(f"pooling: expected one of {', '.join(POOLING)}, got {self.pooling!r}.")


TABLES = {
    "places": {
        "place": Column("int", "place, from 0"),
        "cosine": Column("double", "between the part at this place and the whole text, mean over orders"),
    },
    "cosines": {
        "order": Column("int", "number of the order"),
        "place": Column("int", "place, from 0"),
        "part": Column("int", "which part stands there"),
        "cosine": Column("double", "between the part embedded alone and the whole text"),
    },
    "effect": {
        "slope": Column("double", "change of the cosine from the first place to the last, least squares"),
        "r2": Column("double", "share of the variance that a straight line over places explains; null: none"),
        "psi": Column("double", "position sensitivity: 1 - smallest / largest mean cosine"),
    },
    "bins": {
        "layer": Column("int", "the model's own number"),
        "head": Column("int", "query head"),
        "bin": Column("int", "tenth of the text, from 0"),
        "mass": Column("double", "share that the pooling rows give it, mean over orders"),
        "uniform": Column("double", "the same of uniform attention over the keys that these rows see"),
    },
    "fronts": {
        "layer": Column("int", "the model's own number"),
        "head": Column("int", "query head"),
        "front": Column("double", "share of the text's mass in its first two tenths; 0.2 where all is seen alike"),
    },
}


class SegmentOrder(StudyDefinition):
    """Place against what an embedding keeps."""

    title = "Order of segments"
    question = "Does an embedding keep what comes first and lose what comes last?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        prompt = parameters.prompt or {}
        return str(prompt.get("text") or next(iter(prompt.get("documents") or [""]), ""))

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        prompt = prompt_from(parameters.prompt)
        if model.causal or {layer.kind for layer in attention_layers(model)} != {"self"}:
            raise Refused(f"{model.name} is no encoder: its rows see earlier tokens only. Take an embedding model.")
        count = len(parts_of(prompt))
        n = max(len(encode(model, ordered(prompt, order)).token_ids) for order in cyclic(count, None))
        seconds = count * (2 * RUN_SECONDS + work(model, n) / speed(model))
        one = estimate(model, n, Options(exact_maps="none"))
        words = f"{count} orders of {n:,} tokens and {count} parts alone · about {duration(seconds)} · 1 MB on disk"
        return Plan(count, n, seconds, one.memory_mb, 1.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        prompt = prompt_from(parameters.prompt)
        order = cyclic(len(parts_of(prompt)), None)[number]
        encoded = encode(model, ordered(prompt, order))
        slots = slots_of(encoded.segments, encoded.tokens)
        start, stop = slots.parts[0].start, slots.parts[-1].stop
        rows = slice(0, 1) if parameters.pooling == "first" else slice(0, len(encoded.token_ids))
        bins: list[Row] = []

        def keep(layer: LayerCapture) -> None:
            where.stop_if_cancelled()
            weights, seen = layer_rows(layer, rows)
            even = seen / np.maximum(seen.sum(-1, keepdims=True), 1)
            found, flat = (position_bins(one.mean(1), start, stop).tolist() for one in (weights, even))
            place = {"layer": layer.info.layer}
            bins.extend(
                {**place, "head": head, "bin": at, "mass": found[head][at], "uniform": flat[head][at]}
                for head in range(len(found))
                for at in range(BINS)
            )

        whole = embed(model, encoded.token_ids, parameters.pooling, keep)
        ids = [encoded.token_ids[part.start : part.stop] for part in slots.parts]
        alone = [embed(model, framed(encoded.token_ids, part), parameters.pooling) for part in ids]
        cosines = [{"place": at, "part": order[at], "cosine": cosine(whole, one)} for at, one in enumerate(alone)]
        return RunResult({"cosines": cosines, "bins": bins})

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        cosines = [{"order": at, **row} for at, result in enumerate(results) for row in result.rows["cosines"]]
        grid = np.array([[row["cosine"] for row in result.rows["cosines"]] for result in results])
        found = place_effect(grid)
        heads = [(row["layer"], row["head"]) for row in results[0].rows["bins"][::BINS]]
        masses, even = (
            np.mean([[row[name] for row in result.rows["bins"]] for result in results], 0).reshape(-1, BINS)
            for name in ("mass", "uniform")
        )
        fronts = front_loading(masses)
        return {
            "places": [{"place": at, "cosine": value} for at, value in enumerate(found.by_place)],
            "cosines": cosines,
            "effect": [
                {
                    "slope": None if found.fit is None else found.fit.slope,
                    "r2": None if found.fit is None else found.fit.r2,
                    "psi": found.psi if np.isfinite(found.psi) else None,
                }
            ],
            "bins": [
                {"layer": a, "head": b, "bin": at, "mass": float(masses[n, at]), "uniform": float(even[n, at])}
                for n, (a, b) in enumerate(heads)
                for at in range(BINS)
            ],
            "fronts": [
                {"layer": a, "head": b, "front": float(fronts[n]) if np.isfinite(fronts[n]) else None}
                for n, (a, b) in enumerate(heads)
            ],
        }


def framed(whole: Sequence[int], part: Sequence[int]) -> list[int]:
    """A part alone, between the tokens that begin and end every text of this model."""
    return [whole[0], *part, whole[-1]]


def embed(model: LoadedModel, token_ids: Sequence[int], pooling: str, keep=None) -> np.ndarray:
    """The vector of a text: the mean of the last layer's states, or the first one."""
    ids = torch.tensor([list(token_ids)], device=model.device)
    with torch.inference_mode(), capture(model, NOTHING, on_layer=keep or (lambda layer: None)):
        found = model.model(input_ids=ids, output_hidden_states=True)
    states = found.hidden_states[-1][0].double().cpu().numpy()
    return states[0] if pooling == "first" else states.mean(0)


STUDY = SegmentOrder()

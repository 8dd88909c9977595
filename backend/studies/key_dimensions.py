"""Key dimensions: how many directions keys, queries and values take, before and after the rotary embedding; and how
many the weights of a head allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from backend.capture import capture
from backend.duration import duration
from backend.errors import Refused
from backend.estimate import attention_layers, speed, work
from backend.models import LoadedModel
from backend.rotary import Rotary, rotary_of
from backend.sites import Site, matrix_of, survey
from backend.sparsity.key_rank import components, effective_rank, numerical_rank, product_singular, score_recall
from backend.sparsity.rows import rows_from
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.types import LayerCapture
from kernels.measures import NOTHING, sampled_rows
from kernels.window import visible, weights

PARTS = ("rank_90", "rank_95", "rank_99")
RECALL_AT = (0.125, 0.25, 0.5, 1.0)  # shares of the head's dimensions
HEAD_SECONDS = 0.01


@dataclass(frozen=True)
class Parameters:
    """What a person may choose."""

    token_ids: tuple[int, ...] = ()
    subject: str = ""  # the beginning of the text, for the title

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", tuple(self.token_ids))


RANKS = {
    name: Column("int", f"directions for {name[-2:]} % of the variance; null where all are alike") for name in PARTS
}
TABLES = {
    "ranks": {
        "layer": Column("int", "the model's own number"),
        "key_head": Column("int", "key head"),
        "what": Column("text", "keys before, keys (as attention gets them), queries (of its query heads), values"),
        "dimensions": Column("int", "features of the head"),
        "vectors": Column("int", "how many there were"),
        **RANKS,
    },
    "recall": {
        "layer": Column("int", "the model's own number"),
        "head": Column("int", "query head"),
        "axes": Column("int", "directions of largest variance of the keys that scores are made of"),
        "recall": Column("double", "share of a row's strongest tenth of keys that is found, mean over sampled rows"),
    },
    "weights": {
        "layer": Column("int", "the model's own number"),
        "head": Column("int", "query head"),
        "dimensions": Column("int", "features of the head: no product of queries and keys has a higher rank"),
        "rank_qk": Column("int", "numerical rank of W_Q W_K^T (before the rotary embedding)"),
        "effective_qk": Column("double", "exp of the entropy of its singular values"),
        "rank_ov": Column("int", "numerical rank of W_V W_O"),
        "effective_ov": Column("double", "exp of the entropy of its singular values"),
    },
}


class KeyDimensions(StudyDefinition):
    """Ranks of what attention compares."""

    title = "Key dimensions"
    question = "How many dimensions do keys take, before and after the rotary embedding, and how many do weights allow?"
    Parameters = Parameters
    tables = TABLES

    def subject(self, parameters: Parameters) -> str:
        return parameters.subject

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        length = len(parameters.token_ids)
        if length < 2:
            raise Refused(f"Two tokens or more are needed to see how keys differ; {length} came.")
        if model.max_positions is not None and length > model.max_positions:
            raise Refused(f"{length:,} tokens would be read and the model takes {model.max_positions:,}.")
        layers = attention_layers(model)
        if {layer.kind for layer in layers} != {"self"}:
            raise Refused("This study reads one stack of layers; this model has several, or no softmax attention.")
        seconds = work(model, length) / speed(model) + sum(layer.heads for layer in layers) * HEAD_SECONDS
        return Plan(1, length, seconds, 50.0, 1.0, f"One run of {length:,} tokens · about {duration(seconds)}")

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        rotary, found = rotary_of(model), {name: [] for name in TABLES}

        def on_layer(layer: LayerCapture) -> None:
            where.stop_if_cancelled()
            found["ranks"] += rank_rows(layer, rotary)
            found["recall"] += recall_rows(layer)

        inputs = {"input_ids": torch.tensor([list(parameters.token_ids)], device=model.device)}
        if model.causal:
            inputs["use_cache"] = False
        with torch.inference_mode(), capture(model, NOTHING, on_layer=on_layer):
            model.model(**inputs)
        for site in survey(model.model).sites:
            where.stop_if_cancelled()
            found["weights"] += weight_rows(site)
        return RunResult(found)

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        return {table: [row for result in results for row in result.rows[table]] for table in TABLES}


def rank_rows(layer: LayerCapture, rotary: Rotary | None) -> list[Row]:
    """Of every key head: its keys, the queries that read it, its values; before the embedding where that is known."""
    key, value = layer.key[0].double().cpu(), layer.value[0].double().cpu()
    query = layer.query[0].double().cpu().reshape(len(key), -1, layer.query.shape[-1])
    sets: dict[str, Tensor] = {"keys": key, "queries": query, "values": value}
    if rotary is not None:
        sets = {"keys before": rotary.unrotate(layer.key[0].float().cpu(), 0).double(), **sets}
    return [
        {
            "layer": layer.info.layer,
            "key_head": head,
            "what": what,
            "dimensions": vectors.shape[-1],
            "vectors": vectors.shape[1],
            **dict(zip(PARTS, ranks(vectors[head].numpy()), strict=True)),
        }
        for what, vectors in sets.items()
        for head in range(len(vectors))
    ]


def ranks(vectors: np.ndarray) -> list[int | None]:
    found = components(vectors)
    return [found.rank(int(name[-2:]) / 100) for name in PARTS]


def recall_rows(layer: LayerCapture) -> list[Row]:
    """How well scores of fewer dimensions find the strongest keys, on the sampled rows."""
    n_query, n_key = layer.query.shape[2], layer.key.shape[2]
    wanted = sampled_rows(n_query, 64).tolist()
    parts = [slice(row, row + 1) for row in wanted]
    every = slice(0, n_key)
    maps = torch.cat([weights(layer.query, layer.key, layer.score, layer.lse, part, every)[0] for part in parts], 1)
    seen = torch.cat([visible(layer.score, n_query, n_key, part, every)[0] for part in parts], 1)
    seen = seen.cpu().expand(maps.shape).numpy()
    sizes = sorted({max(1, int(share * layer.info.head_dim)) for share in RECALL_AT})
    group, rows = layer.info.heads // layer.info.key_heads, []
    for head in range(layer.info.heads):
        one = rows_from(maps[head].cpu().numpy(), seen[head], np.array(wanted))
        key = layer.key[0, head // group].double().cpu().numpy()
        query = layer.query[0, head].double().cpu().numpy()[one.position]
        for size, recall in zip(sizes, score_recall(one, query, key, components(key), sizes), strict=True):
            rows.append({"layer": layer.info.layer, "head": head, "axes": size,
                         "recall": None if recall != recall else recall})  # fmt: skip
    return rows


def weight_rows(site: Site) -> list[Row]:
    """Ranks of W_QK and W_OV of every head, where queries, keys, values and output are plain matrices of their own."""
    parts = [getattr(site.module, name, None) for name in ("q_proj", "k_proj", "v_proj")]
    if site.projection is None or not all(isinstance(part, nn.Linear) for part in parts):
        return []
    info, rows = site.info, []
    query, key, value = (matrix_of(part).detach().double().cpu() for part in parts)  # [model, heads * D]
    output = matrix_of(site.projection).detach().double().cpu()  # [heads * Dv, model]
    if query.shape[1] != info.heads * info.head_dim or key.shape[1] != info.key_heads * info.head_dim:
        return []
    for head in range(info.heads):
        own = head // (info.heads // info.key_heads)
        of_query = query[:, head * info.head_dim : (head + 1) * info.head_dim].numpy()
        of_key = key[:, own * info.head_dim : (own + 1) * info.head_dim].numpy()
        of_value = value[:, own * info.value_dim : (own + 1) * info.value_dim].numpy()
        of_output = output[head * info.value_dim : (head + 1) * info.value_dim].numpy()
        row: Row = {"layer": info.layer, "head": head, "dimensions": info.head_dim}
        for name, left, right in (("qk", of_query, of_key), ("ov", of_value, of_output.T)):
            singular = product_singular(left, right)
            row[f"rank_{name}"] = numerical_rank(singular, len(left), len(right))
            row[f"effective_{name}"] = effective_rank(singular)
        rows.append(row)
    return rows


STUDY = KeyDimensions()

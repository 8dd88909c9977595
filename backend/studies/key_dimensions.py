"""Key dimensions: how many directions keys, queries and values take, before and after the rotary embedding; and how
many the weights of a head allow.

The text is read once; after that every layer is a run of its own.
"""

from __future__ import annotations

import weakref
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
from backend.sparsity.key_rank import (
    Components,
    components,
    effective_rank,
    numerical_rank,
    product_singular,
    score_recall,
)
from backend.sparsity.rows import Rows, rows_from
from backend.studies.definition import Column, Plan, Row, RunResult, StudyDefinition, Surroundings
from backend.studies.refusals import require_one_stack
from backend.types import LayerCapture
from kernels.measures import NOTHING, sampled_rows
from kernels.threads import run_all
from kernels.window import visible, weights

PARTS = ("rank_90", "rank_95", "rank_99")
RECALL_AT = (0.125, 0.25, 0.5, 1.0)  # shares of the head's dimensions
HEAD_SECONDS, KEY_SECONDS = 0.008, 1.5e-5  # of measuring one head, and for each of its keys


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
    version = 2  # a run is one layer

    def subject(self, parameters: Parameters) -> str:
        return parameters.subject

    def plan(self, model: LoadedModel, parameters: Parameters) -> Plan:
        length = len(parameters.token_ids)
        if length < 2:
            raise Refused(f"Two tokens or more are needed to see how keys differ; {length} came.")
        if model.max_positions is not None and length > model.max_positions:
            raise Refused(f"{length:,} tokens would be read and the model takes {model.max_positions:,}.")
        layers = attention_layers(model)
        require_one_stack(model, "This study")
        if survey(model.model).dense:
            raise Refused(f"{model.name} computes its own softmax: its queries and keys are not seen, only its maps.")
        heads = sum(layer.heads for layer in layers)
        seconds = work(model, length) / speed(model) + heads * (HEAD_SECONDS + KEY_SECONDS * length)
        wide = sum(n.heads * n.head_dim + n.key_heads * (n.head_dim + n.value_dim) for n in layers)
        memory = 4 * wide * length + 16 * 64 * length * max(layer.heads for layer in layers)
        words = f"One reading of {length:,} tokens, then {len(layers):,} layers · about {duration(seconds)}"
        return Plan(len(layers), length, seconds, 50 + memory / 1e6, 1.0, words)

    def run(self, model: LoadedModel, parameters: Parameters, number: int, where: Surroundings) -> RunResult:
        where.stop_if_cancelled()
        site, text = survey(model.model).sites[number], read(model, parameters.token_ids, where)
        layer = text.layers[number]
        sets, rows, factors = vectors_of(layer, text.rotary), sampled(layer), weights_of(site)
        found: list[dict[str, list[Row]]] = [{} for _ in range(site.info.key_heads)]

        def key_head(number: int) -> None:
            keys = components(sets["keys"][number])
            found[number] = {
                "ranks": rank_rows(layer, number, sets),
                "recall": recall_rows(layer, number, rows, keys, sets),
                "weights": weight_rows(site, number, factors),
            }

        run_all([lambda head=head: key_head(head) for head in range(site.info.key_heads)], parallel=True)
        return RunResult({table: [row for one in found for row in one[table]] for table in TABLES})

    def leave(self, model: LoadedModel) -> None:
        _texts.pop(model.model, None)

    def combine(self, parameters: Parameters, results: Sequence[RunResult]) -> dict[str, list[Row]]:
        return {table: [row for result in results for row in result.rows[table]] for table in TABLES}


@dataclass(frozen=True, eq=False)
class Text:
    """A text that was read, for the runs of a study that follow each other."""

    token_ids: tuple[int, ...]
    layers: tuple[LayerCapture, ...]  # in the order of the model's sites
    rotary: Rotary | None


_texts: weakref.WeakKeyDictionary[nn.Module, Text] = weakref.WeakKeyDictionary()


def read(model: LoadedModel, token_ids: tuple[int, ...], where: Surroundings) -> Text:
    """The text as the model read it; that of the last call is kept."""
    kept = _texts.get(model.model)
    if kept is not None and kept.token_ids == token_ids:
        return kept
    layers: list[LayerCapture] = []

    def on_layer(layer: LayerCapture) -> None:
        where.stop_if_cancelled()
        layers.append(layer)

    inputs = {"input_ids": torch.tensor([list(token_ids)], device=model.device)}
    if model.causal:
        inputs["use_cache"] = False
    with torch.inference_mode(), capture(model, NOTHING, on_layer=on_layer):
        model.model(**inputs)
    _texts[model.model] = Text(token_ids, tuple(layers), rotary_of(model))
    return _texts[model.model]


def vectors_of(layer: LayerCapture, rotary: Rotary | None) -> dict[str, np.ndarray]:
    """Keys, the queries that read them, and values: float64 [Hk, n, D]; keys before the embedding where it is known."""
    key, value = layer.key[0].double().cpu(), layer.value[0].double().cpu()
    query = layer.query[0].double().cpu().reshape(len(key), -1, layer.query.shape[-1])
    sets: dict[str, Tensor] = {"keys": key, "queries": query, "values": value}
    if rotary is not None:
        sets = {"keys before": rotary.unrotate(layer.key[0].float().cpu(), 0).double(), **sets}
    return {what: vectors.numpy() for what, vectors in sets.items()}


def rank_rows(layer: LayerCapture, head: int, sets: dict[str, np.ndarray]) -> list[Row]:
    """Of one key head: its keys, the queries that read it, its values."""
    return [
        {
            "layer": layer.info.layer,
            "key_head": head,
            "what": what,
            "dimensions": vectors.shape[-1],
            "vectors": vectors.shape[1],
            **dict(zip(PARTS, ranks(vectors[head]), strict=True)),
        }
        for what, vectors in sets.items()
    ]


def ranks(vectors: np.ndarray) -> list[int | None]:
    found = components(vectors)
    return [found.rank(int(name[-2:]) / 100) for name in PARTS]


def sampled(layer: LayerCapture) -> list[Rows]:
    """The sampled rows of every head's map; rows that stand together are looked at together."""
    n_query, n_key = layer.query.shape[2], layer.key.shape[2]
    wanted, every = sampled_rows(n_query, 64).numpy(), slice(0, n_key)
    parts = [slice(int(run[0]), int(run[-1]) + 1) for run in np.split(wanted, np.flatnonzero(np.diff(wanted) > 1) + 1)]
    maps = torch.cat([weights(layer.query, layer.key, layer.score, layer.lse, part, every)[0] for part in parts], 1)
    seen = torch.cat([visible(layer.score, n_query, n_key, part, every)[0] for part in parts], 1)
    seen = seen.cpu().expand(maps.shape).numpy()
    return [rows_from(own, cells, wanted) for own, cells in zip(maps.cpu().numpy(), seen, strict=True)]


def recall_rows(
    layer: LayerCapture, key_head: int, rows: Sequence[Rows], keys: Components, sets: dict[str, np.ndarray]
) -> list[Row]:
    """How well scores of fewer dimensions find the strongest keys, on the sampled rows of a key head's query heads."""
    sizes = sorted({max(1, int(share * layer.info.head_dim)) for share in RECALL_AT})
    group, found = layer.info.heads // layer.info.key_heads, []
    for place, head in enumerate(range(key_head * group, (key_head + 1) * group)):
        query = sets["queries"][key_head].reshape(group, -1, layer.info.head_dim)[place]
        one = rows[head]
        recalls = score_recall(one, query[one.position], sets["keys"][key_head], keys, sizes)
        for size, recall in zip(sizes, recalls, strict=True):
            found.append({"layer": layer.info.layer, "head": head, "axes": size,
                          "recall": None if recall != recall else recall})  # fmt: skip
    return found


def weights_of(site: Site) -> dict[str, np.ndarray]:
    """W_Q [H, model, D], W_K, W_V [Hk, model, D] and W_O [H, model, D] in float64; nothing where they are no plain
    matrices of their own."""
    parts = [getattr(site.module, name, None) for name in ("q_proj", "k_proj", "v_proj")]
    if site.projection is None or not all(isinstance(part, nn.Linear) for part in parts):
        return {}
    info = site.info
    query, key, value = (matrix_of(part).detach().double().cpu() for part in parts)  # [model, heads * D]
    output = matrix_of(site.projection).detach().double().cpu()  # [heads * Dv, model]
    if query.shape[1] != info.heads * info.head_dim or key.shape[1] != info.key_heads * info.head_dim:
        return {}
    cut = {
        "query": query.reshape(len(query), info.heads, -1),
        "key": key.reshape(len(key), info.key_heads, -1),
        "value": value.reshape(len(value), info.key_heads, -1),
        "output": output.reshape(info.heads, -1, output.shape[1]).permute(2, 0, 1),
    }
    return {name: matrix.transpose(0, 1).contiguous().numpy() for name, matrix in cut.items()}


def weight_rows(site: Site, key_head: int, factors: dict[str, np.ndarray]) -> list[Row]:
    """Ranks of W_QK and W_OV of the query heads of a key head."""
    if not factors:
        return []
    info = site.info
    group = info.heads // info.key_heads
    own = slice(key_head * group, (key_head + 1) * group)
    found: list[Row] = [
        {"layer": info.layer, "head": head, "dimensions": info.head_dim} for head in range(own.start, own.stop)
    ]
    for name, left, right in (("qk", "query", "key"), ("ov", "output", "value")):
        of_heads, shared = factors[left][own], factors[right][key_head]
        for row, singular in zip(found, product_singular(of_heads, shared), strict=True):
            row[f"rank_{name}"] = numerical_rank(singular, of_heads.shape[1], len(shared))
            row[f"effective_{name}"] = effective_rank(singular)
    return found


STUDY = KeyDimensions()

"""Analyses with planted maps, written and opened by the real rooms."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from backend import statistics
from backend.store import Analysis, AnalysisWriter, Library
from backend.types import LayerInfo, LayerRecord, RunRecord, Segment, Token
from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec

CAUSAL = ScoreSpec(scale=1.0)


def uniform(n: int, score: ScoreSpec = CAUSAL, heads: int = 1) -> tuple[Tensor, Tensor, ScoreSpec]:
    """Queries and keys of zeros: attention is uniform over the visible keys."""
    return torch.zeros(heads, n, 4), torch.zeros(heads, n, 4), score


def sink_at(n: int, key: int, beta: float, score: ScoreSpec = CAUSAL) -> tuple[Tensor, Tensor, ScoreSpec]:
    """One head whose rows all give the logit beta to one key and 0 to the others."""
    query, keys = torch.zeros(1, n, 4), torch.zeros(1, n, 4)
    query[..., 0], keys[0, key, 0] = beta, 1.0
    return query, keys, score


def stored(
    folder: Path,
    layers: list[tuple[Tensor, Tensor, ScoreSpec]],
    *,
    words: list[str] | None = None,
    norms: Tensor | None = None,
    hidden: Tensor | None = None,
    largest: Tensor | None = None,
    special: tuple[int, ...] = (),
    exact: tuple[int, ...] | None = None,
    **info,
) -> Analysis:
    """Stores layers of (query [H, Nq, D], key [Hk, Nk, D], rule). norms [H, Nk]: those of keys, values and
    outputs; hidden, largest [N]: norm and largest magnitude of the residual stream."""
    n = layers[0][1].shape[1]
    words = words or [f"w{place} " for place in range(n)]
    with AnalysisWriter(folder) as writer:
        for number, (query, key, score) in enumerate(layers):
            writer.layer(layer_of(number, query, key, score, norms, (hidden, largest), exact))
        facts = {"model": "tiny", "prompt": {"text": "".join(words)}, "implementation": "reference", "checks": {}}
        record = RunRecord(
            tokens(words, special), [Segment("text", "text", 0, n)], [], {**facts, "segments": [], **info}
        )
        id = writer.publish(record)
    return Library(folder).open(id)


def layer_of(number, query, key, score, norms, hidden, exact) -> LayerRecord:
    heads, key_heads, width = query.shape[0], key.shape[0], query.shape[2]
    info = LayerInfo("self", number, f"layers.{number}", "softmax", heads, key_heads, width, width, score.window)
    found = attend(query[None], key[None], key[None], score, MeasureRequest(pooled=16), impl="reference")
    measures = {name: tensor[0] if tensor.ndim > 1 else tensor for name, tensor in found.measures.items()}
    norms = torch.ones(heads, key.shape[1]) if norms is None else norms
    return LayerRecord(
        info=info,
        score=score,
        query=query,
        key=key,
        lse=found.lse[0].float(),
        measures=measures,
        statistics={name: one.compute(measures, info) for name, one in statistics.all().items()},
        key_norm=norms,
        value_norm=norms,
        output_norm=norms,
        hidden_norm=hidden[0],
        hidden_max=hidden[0] if hidden[1] is None else hidden[1],
        exact=tuple(range(heads)) if exact is None else exact,
    )


def tokens(words: list[str], special: tuple[int, ...]) -> list[Token]:
    """One token per word."""
    made, at = [], 0
    for place, word in enumerate(words):
        span = (at, at + len(word))
        raw = word.encode()
        made.append(Token(place, 3 + place, word, word, word, raw, *span, place in special, 0, place))
        at = span[1]
    return made

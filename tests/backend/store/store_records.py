"""Small analyses from random queries and keys, put through the real kernels and the real writer."""

from __future__ import annotations

import torch

from backend import statistics
from backend.store import AnalysisWriter
from backend.types import LayerInfo, LayerRecord, Prediction, RunRecord, Segment, Token
from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec


def layer_record(
    layer: int = 0,
    *,
    n: int = 20,
    heads: int = 4,
    key_heads: int = 2,
    dim: int = 8,
    exact: tuple[int, ...] | None = None,
    score: ScoreSpec | None = None,
    pooled: int = 128,
    top: int = 0,
    scale: float = 2.0,
    dtype: torch.dtype = torch.float32,
    kind: str = "self",
) -> LayerRecord:
    """One layer of random queries and keys, as the pipeline hands it over."""
    score = score or ScoreSpec(scale=dim**-0.5)
    query = (torch.randn(1, heads, n, dim) * scale).to(dtype)
    key, value = ((torch.randn(1, key_heads, n, dim) * scale).to(dtype) for _ in range(2))
    request = MeasureRequest(pooled=pooled, top=top, tokens=torch.arange(n)[None] % 5)
    attended = attend(query, key, value, score, request, impl="reference" if n <= 256 else "tiled")
    measures = {k: v if k == "sampled_rows" else v[0] for k, v in attended.measures.items()}
    info = LayerInfo(kind, layer, f"model.layers.{layer}.self_attn", "softmax", heads, key_heads, dim, dim)
    norms = torch.linalg.vector_norm(key[0].float(), dim=-1).repeat_interleave(heads // key_heads, 0)
    return LayerRecord(
        info=info,
        score=score,
        query=query[0],
        key=key[0],
        lse=attended.lse[0],
        measures=measures,
        statistics={name: s.compute(measures, info) for name, s in statistics.all().items()},
        key_norm=norms,
        value_norm=norms * 2,
        output_norm=None,
        hidden_norm=torch.rand(n),
        hidden_max=torch.rand(n),
        exact=tuple(range(heads)) if exact is None else exact,
    )


def run_record(n: int = 20, **info) -> RunRecord:
    """Tokens, segments and facts of a run of n tokens."""
    tokens = [
        Token(i, 100 + i, f" w{i}", f"·w{i}", f"Ġw{i}", f" w{i}".encode(), 3 * i, 3 * i + 3, i == 0, 0, i, "self", -1.5)
        for i in range(n)
    ]
    facts = {
        "model": "random",
        "prompt": {"text": "The quick brown fox"},
        "weights_hash": "w",
        "dtype": "float32",
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    return RunRecord(
        tokens=tokens,
        segments=[Segment("text", "text", 0, n)],
        predictions=[Prediction(n - 1, 0, 7, " fox", -0.25)],
        info={**facts, **info},
    )


def store(library, records: list[LayerRecord], run: RunRecord | None = None, **options) -> str:
    """Writes one analysis; its id."""
    with AnalysisWriter(library) as writer:
        for record in records:
            writer.layer(record)
        n = max(record.measures["visible_keys"].shape[1] for record in records)
        return writer.publish(run or run_record(n), **options)

"""Small stored analyses for tests of routes and pages: random queries and keys, written by the real rooms."""

from __future__ import annotations

from pathlib import Path

import torch

from backend import statistics
from backend.store import AnalysisWriter
from backend.types import LayerInfo, LayerRecord, RunRecord, Segment, Token
from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec

HOSTILE = "Pay $5 or $6, **x**, :red[y] <img src=x onerror=alert(1)>"


def store(
    library: Path,
    *,
    n_tokens: int = 24,
    layers: tuple[int, ...] = (0, 1),
    heads: int | tuple[int, ...] = 4,
    exact: tuple[int, ...] | None = None,
    text: str = "w" * 24,
    id: str | None = None,
    **entry,
) -> str:
    """Writes one analysis, returns its id. heads: of every layer, or each. `entry`: visibility, owner, title, tags."""
    generator = torch.Generator().manual_seed(n_tokens)
    with AnalysisWriter(library, id=id) as writer:
        counts = (heads,) * len(layers) if isinstance(heads, int) else heads
        for layer, count in zip(layers, counts, strict=True):
            writer.layer(record(layer, n_tokens, count, range(count) if exact is None else exact, generator))
        info = {
            "model": "tiny",
            "prompt": {"text": text},
            "implementation": "reference",
            "checks": {"status": "in the list", "maps_equal_eager": {"error": 1e-6, "tolerance": 1e-4, "passed": True}},
            "segments": [],
        }
        return writer.publish(
            RunRecord(tokens(text, n_tokens), [Segment("text", "text", 0, n_tokens)], [], info), **entry
        )


def record(layer: int, n: int, heads: int, exact, generator: torch.Generator) -> LayerRecord:
    """One layer of random attention with a strong first key."""
    info = LayerInfo("self", layer, f"layers.{layer}", "softmax", heads, heads // 2, 8, 8)
    query = torch.randn(1, heads, n, 8, generator=generator) * 2
    key = torch.randn(1, heads // 2, n, 8, generator=generator) * 2
    value = torch.randn(1, heads // 2, n, 8, generator=generator)
    score = ScoreSpec(scale=8**-0.5)
    request = MeasureRequest(pooled=16, tokens=torch.arange(n)[None])
    found = attend(query, key, value, score, request, impl="reference")
    measures = {name: tensor[0] if tensor.ndim > 1 else tensor for name, tensor in found.measures.items()}
    norms = key[0].norm(dim=-1).repeat_interleave(2, 0)
    return LayerRecord(
        info=info,
        score=score,
        query=query[0],
        key=key[0],
        lse=found.lse[0].float(),
        measures=measures,
        statistics={name: one.compute(measures, info) for name, one in statistics.all().items()},
        key_norm=norms,
        value_norm=norms,
        output_norm=None,
        hidden_norm=None,
        hidden_max=None,
        exact=tuple(exact),
    )


def tokens(text: str, n: int) -> list[Token]:
    """The text cut into n pieces, the last one the longest."""
    pieces = [*text[: n - 1], text[n - 1 :]]
    pieces += [""] * (n - len(pieces))
    return [
        Token(i, i, piece, piece or "·", piece, piece.encode(), i, i + len(piece), False, 0, i)
        for i, piece in enumerate(pieces)
    ]

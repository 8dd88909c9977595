"""What every statistic would say if attention were uniform over the visible keys.

The baseline is measured, not derived: queries and keys of zeros are put through the same kernels with the same rule of
visibility, so windows, padding, chunks and hidden keys are counted exactly as they are for the head itself.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from backend import statistics
from backend.types import LayerInfo
from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec

FEATURES = 16  # the narrowest head that every implementation takes; the zeros in it say nothing


def uniform_score(score: ScoreSpec, heads: int, device: torch.device | str) -> ScoreSpec:
    """The same visibility with everything gone that would prefer one visible key to another."""
    flat = torch.full((heads,), torch.inf, device=device)
    # Biases stay because one of -inf hides its cell; an infinite temperature levels the finite ones.
    biased = any(bias is not None for bias in (score.bias_by_distance, score.key_bias, score.row_bias, score.bias))
    return replace(score.to(device), scale=1.0, softcap=None, sink=None, temperature=flat if biased else None)


def uniform_measures(
    score: ScoreSpec,
    n_query: int,
    n_key: int,
    *,
    heads: int = 1,
    tokens: Tensor | None = None,
    impl: str = "auto",
    device: torch.device | str = "cpu",
) -> dict[str, Tensor]:
    """The measures of uniform attention, without the batch axis: axes as in kernels/measures.py with H = heads.

    score describes one sample. One head is enough unless the visibility differs from head to head. tokens: int [1, Nk].
    """
    zeros = torch.zeros(1, heads, max(n_query, n_key), FEATURES, device=device)
    query, key = zeros[:, :, :n_query], zeros[:, :, :n_key]
    request = MeasureRequest(pooled=None, sampled=0, tokens=tokens)
    attended = attend(query, key, key, uniform_score(score, heads, device), request, impl=impl)
    return {name: values[0] for name, values in attended.measures.items() if values.ndim > 1}


def uniform_statistics(measures: dict[str, Tensor], info: LayerInfo) -> dict[str, float | None]:
    """Each statistic of uniform attention, the mean over heads where they differ; None where it is undefined."""
    values = {name: float(s.compute(measures, info).mean()) for name, s in statistics.all().items()}
    return {name: value if value == value else None for name, value in values.items()}

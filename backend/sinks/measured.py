"""Importance of every key from a fresh run of the model, several texts of one length at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from backend.baselines import uniform_measures
from backend.capture import capture
from backend.models import LoadedModel
from backend.next_token import tapped
from backend.run_layers import heads_apart, visibility
from backend.sinks.importance import mean_over_heads
from backend.types import LayerCapture, LayerInfo
from kernels.measures import MeasureRequest

REQUEST = MeasureRequest(distances=False, pooled=None, sampled=0)


@dataclass(frozen=True, eq=False)
class MeasuredLayer:
    """One layer of a batch of B texts of N tokens."""

    info: LayerInfo
    importance: np.ndarray  # [B, H, N]; NaN where no row sees the key
    rows: np.ndarray  # int64 [B, H, N]
    learned: np.ndarray  # [B, H] mean mass on the learned sink
    uniform: np.ndarray  # [N] importance under uniform attention


def measured(
    model: LoadedModel, texts: Sequence[Sequence[int]], stop_if_cancelled: Callable[[], None] = lambda: None
) -> list[MeasuredLayer]:
    """One forward pass of texts of equal length."""
    ids = torch.tensor(list(texts), device=model.device)
    found: list[MeasuredLayer] = []
    baselines: dict[tuple, np.ndarray] = {}

    def on_layer(layer: LayerCapture) -> None:
        stop_if_cancelled()
        found.append(measured_layer(layer, baselines))

    inputs = {"input_ids": ids, **({"use_cache": False} if model.causal else {})}
    with torch.inference_mode(), tapped(model.model), capture(model, REQUEST, on_layer=on_layer):
        model.model(**inputs)
    return found


def measured_layer(layer: LayerCapture, baselines: dict[tuple, np.ndarray]) -> MeasuredLayer:
    """One captured layer; layers of the same visibility share a baseline."""
    received, rows = (as_numpy(layer.measures[name]) for name in ("received_sum", "visible_rows"))
    n_query, n_key = layer.query.shape[2], layer.key.shape[2]
    same = visibility(layer.score, layer.info, n_query, n_key)
    if same is None or same not in baselines:
        device = layer.query.device
        uniform = uniform_measures(layer.score, n_query, n_key, heads=heads_apart(layer.score), device=device)
        baselines[same] = mean_over_heads(uniform["received_sum"].cpu(), uniform["visible_rows"].cpu())
    return MeasuredLayer(
        info=layer.info,
        importance=np.divide(received, rows, out=np.full(received.shape, np.nan), where=rows > 0),
        rows=rows,
        learned=np.nan_to_num(as_numpy(layer.measures["learned_sink_mass"])).mean(-1),
        uniform=baselines[same],
    )


def as_numpy(values: Tensor) -> np.ndarray:
    """float64 or int64 on the CPU."""
    return (values.double() if values.is_floating_point() else values).cpu().numpy()

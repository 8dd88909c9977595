"""The rotary wave: what the rotary embedding alone says about distance (B-03)."""

from __future__ import annotations

import weakref

import numpy as np
import torch
from torch import Tensor, nn

from backend.models import LoadedModel
from backend.rotary import Rotary, rotary_of

BUCKETS = (10_000.0, 17_500.0, 18_000.0, 19_000.0, 20_000.0, 25_000.0)  # bases of Attention Buckets
_known: weakref.WeakKeyDictionary[nn.Module, dict | None] = weakref.WeakKeyDictionary()


def rotary_facts(model: LoadedModel) -> dict | None:
    """For info["rotary"]: base, kind of scaling, frequencies, the length trained for. None without rotary embedding.

    halves: keys are turned in halves (feature i with i + R / 2), checked against what the model does.
    """
    if model.model not in _known:
        _known[model.model] = _facts(model)
    return _known[model.model]


def _facts(model: LoadedModel) -> dict | None:
    found = {
        tuple(module.inv_freq.tolist())
        for module in model.model.modules()
        if isinstance(getattr(module, "inv_freq", None), Tensor) and module.inv_freq.ndim == 1
    }
    if len(found) != 1:
        return None
    config = model.config
    given = getattr(config, "rope_parameters", None) or {}
    trained = given.get("original_max_position_embeddings") or getattr(config, "max_position_embeddings", None)
    return {
        "base": given.get("rope_theta"),
        "scaling": given.get("rope_type", "default"),
        "factor": given.get("factor"),
        "trained": trained,
        "frequencies": [float(f"{value:.9g}") for value in found.pop()],
        "halves": rotary_of(model) is not None,
    }


def frequencies_of(base: float, features: int) -> np.ndarray:
    """base^(-2 f / d), [d / 2], radians per token."""
    return base ** (-2 * np.arange(features // 2) / features)


def wave(frequencies: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """(2 / d) sum over f of cos(D theta_f): 1 at distance 0. The score of equal queries and keys at a distance D."""
    return np.cos(np.asarray(distances, float)[:, None] * np.asarray(frequencies, float)[None]).mean(-1)


def longest_wavelength(frequencies: np.ndarray) -> float:
    """In tokens."""
    return float(2 * np.pi / np.min(frequencies))


def troughs(values: np.ndarray) -> np.ndarray:
    """Where a wave over distances 0, 1, 2 ... has its local minima."""
    inner = (values[1:-1] < values[:-2]) & (values[1:-1] <= values[2:])
    return np.flatnonzero(inner) + 1


def content_free(query: Tensor, key: Tensor, frequencies: np.ndarray, scale: float, count: int) -> np.ndarray:
    """The score that the mean query gives the mean key at distances 0 .. count - 1 (B-02, content-free): [count].

    query, key [N, D] of one head as attention sees them, turned in halves. Exact where contents do not depend on place.
    """
    rotary = Rotary(torch.tensor(np.asarray(frequencies, np.float64)))
    mean = [rotary.unrotate(states.float(), 0).double().mean(0) for states in (query, key)]
    turned = rotary.rotate(mean[0].float().expand(count, -1), 0).double()  # the query's turn by the distance
    return (turned @ mean[1] * scale).numpy()

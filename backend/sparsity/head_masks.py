"""Masks of a run in which every head keeps a pattern of its own, made from the head's dense map."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from backend.sparsity.patterns import SIMPLE_FIRST, paths
from backend.sparsity.real_run import Prepared
from backend.sparsity.retained import divergence
from backend.sparsity.rows import Rows, rows_from

CHOICES = ("best", *SIMPLE_FIRST)


class HeadMasks:
    """Called with the place of a layer it gives bool [H, N, N], and remembers what was kept."""

    def __init__(self, text: Prepared, family: str, budget: float) -> None:
        """family: one of CHOICES; "best" takes for every head the one that keeps most within the budget."""
        self.text, self.family, self.budget = text, family, budget
        self.retained: dict[int, list[float]] = {}  # layer -> of every head, mean over the judges
        self._divergence: list[float] = []
        self._pairs = [0, 0]  # kept, visible
        self._layers = text.layers()

    def __call__(self, place: int) -> Tensor:
        layer = self._layers[place]()
        maps = layer.weights(0, layer.length).double().cpu().numpy()
        position = np.arange(layer.length)
        visible = np.broadcast_to(layer.visible(0, layer.length).numpy(), maps.shape)
        found = np.zeros(maps.shape, bool)
        self.retained[layer.number] = []
        for head, weights in enumerate(maps):
            rows = rows_from(weights, visible[head], position)
            found[head] = self.mask_of(rows)
            judged = (rows.weights * found[head])[layer.n :].sum(-1)
            self.retained[layer.number].append(float(judged.mean()))
            self._divergence.append(float(divergence(judged).mean()))
            self._pairs[0] += int(found[head].sum())
            self._pairs[1] += int(visible[head].sum())
        return torch.from_numpy(found)

    def mask_of(self, rows: Rows) -> np.ndarray:
        """The pattern of one head. Every row keeps itself, or it might see nothing."""
        most = int(self.budget * rows.visible.sum() + 1e-9)
        known = paths(rows)
        steps = {name: known[name].step_within(most) for name in SIMPLE_FIRST if self.family in ("best", name)}
        fitting = {name: float(known[name].mass[step]) for name, step in steps.items() if step is not None}
        own = np.eye(len(rows.position), dtype=bool)
        if not fitting:
            return own
        name = max(fitting, key=fitting.get)
        return known[name].mask(steps[name]) | own

    def summary(self) -> dict[str, float]:
        """kept, retained and prediction, as in a study's row."""
        values = [value for layer in self.retained.values() for value in layer]
        return {
            "kept": self._pairs[0] / max(1, self._pairs[1]),
            "retained": float(np.mean(values)),
            "prediction": float(np.mean(self._divergence)),
        }

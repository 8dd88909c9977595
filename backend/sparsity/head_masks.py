"""Masks of a run in which every head keeps a pattern of its own, made from the head's dense map."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from backend.sparsity.patterns import SIMPLE_FIRST, Onward, paths, retained_rows
from backend.sparsity.real_run import Prepared
from backend.sparsity.retained import divergence
from backend.sparsity.rows import Rows, rows_from

CHOICES = ("best", *SIMPLE_FIRST)


class HeadMasks:
    """Gives the masks of a layer by its place, for the text and for rows behind it, and remembers what was kept."""

    def __init__(self, text: Prepared, family: str, budget: float) -> None:
        """family: one of CHOICES; "best" takes for every head the one that keeps most within the budget."""
        self.family, self.budget = family, budget
        self.retained: dict[int, list[float]] = {}  # layer -> of every head, mean over the judges
        self._divergence: list[float] = []
        self._pairs = [0, 0]  # kept, visible
        self._layers = text.layers()
        self._onward: dict[int, list[Onward]] = {}  # place -> of every head

    def __call__(self, place: int) -> Tensor:
        """bool [H, N, N] of the text."""
        layer = self._layers[place]()
        maps = layer.weights(0, layer.length).cpu().numpy()
        position = np.arange(layer.length)
        visible = np.broadcast_to(layer.visible(0, layer.length).numpy(), maps.shape)
        found = np.zeros(maps.shape, bool)
        self.retained[layer.number], self._onward[place] = [], []
        for head, weights in enumerate(maps):
            rows = rows_from(weights, visible[head], position)
            found[head], onward = self.pattern_of(rows)
            self._onward[place].append(onward)
            judged = retained_rows(Rows(*(v[layer.n :] for v in (rows.weights, rows.visible, rows.position))),
                                   found[head, layer.n :])  # fmt: skip
            self.retained[layer.number].append(float(judged.mean()))
            self._divergence.append(float(divergence(judged).mean()))
            self._pairs[0] += int(found[head].sum())
            self._pairs[1] += int(visible[head].sum())
        return torch.from_numpy(found)

    def behind(self, place: int, position: int) -> Tensor:
        """bool [H, position + 1] of one row behind the text."""
        return torch.from_numpy(np.stack([onward.row(position) for onward in self._onward[place]]))

    def pattern_of(self, rows: Rows) -> tuple[np.ndarray, Onward]:
        """The pattern of one head, and what it keeps further on. Every row keeps itself, or it might see nothing."""
        cells = int(rows.visible.sum())
        most = int(self.budget * cells + 1e-9)
        if most == cells:
            return rows.visible, Onward(behind=0)  # nothing is hidden, further on neither
        known = paths(rows)
        steps = {name: known[name].step_within(most) for name in SIMPLE_FIRST if self.family in ("best", name)}
        fitting = {name: float(known[name].mass[step]) for name, step in steps.items() if step is not None}
        own = np.eye(len(rows.position), dtype=bool)
        if not fitting:
            return own, Onward()
        name = max(fitting, key=fitting.get)
        return known[name].mask(steps[name]) | own, known[name].onward(steps[name])

    def summary(self) -> dict[str, float]:
        """kept, retained and prediction, as in a study's row."""
        values = [value for layer in self.retained.values() for value in layer]
        return {
            "kept": self._pairs[0] / max(1, self._pairs[1]),
            "retained": float(np.mean(values)),
            "prediction": float(np.mean(self._divergence)),
        }

"""Top-theta: keys whose weight reaches a threshold that was set beforehand."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backend.policies.layer import Layer
from backend.policies.policy import Policy
from backend.policies.snapkv import WINDOW

EVERY = 10  # one row in ten calibrates


class TopTheta(Policy):
    title = "Top-theta"
    caption = "Keeps the keys that most of the last 64 rows give at least a threshold."
    formula = (
        "theta of a head = mean over every tenth row of its k-th largest weight, k the budget in keys at that row; "
        "score_j = share of the last 64 rows with A_ij >= theta, of equals the one with the largest weight"
    )
    source = "Top-theta attention, a rule per row; made an eviction by counting rows"

    share = 0.25  # of the keys that calibration aims at; the budget of the run decides how many are kept

    def scores(self, layer: Layer) -> Tensor:
        theta = thresholds(layer, self.share)
        start = max(0, layer.n - WINDOW)
        rows = layer.weights(start, layer.n)  # [H, w, n]
        seen = layer.visible(start, layer.n).to(rows.device)
        votes = ((rows >= theta[:, None, None]) & seen).float().mean(1)
        return layer.per_key_head(votes + 1e-3 * rows.amax(1))

    def note(self, layer: Layer, budget: float) -> str | None:
        if layer.n >= WINDOW:
            return None
        return f"{self.title} looks at the last {WINDOW} rows; this context has {layer.n:,}."


@dataclass(frozen=True)
class PerRow:
    """The rule as it was made: every row keeps the keys that reach its head's threshold."""

    kept: Tensor  # [H, rows] share of the visible keys
    mass: Tensor  # [H, rows] retained


def thresholds(layer: Layer, share: float) -> Tensor:
    """theta [H]: the mean over the calibrating rows of the k-th largest weight, k = share of the keys they see."""
    found = []
    for row in range(EVERY - 1, layer.n, EVERY) if layer.n >= EVERY else [layer.n - 1]:
        weights = layer.weights(row, row + 1)[:, 0]
        seen = layer.visible(row, row + 1)[:, 0].sum(-1, keepdim=True)  # [H or 1, 1]
        place = (share * seen.double()).long().clamp(min=1).expand(layer.heads, 1).to(weights.device) - 1
        found.append(weights.sort(-1, descending=True).values.gather(-1, place)[:, 0])
    return torch.stack(found).mean(0)


def per_row(layer: Layer, share: float) -> PerRow:
    """What the rule keeps in the rows behind the context."""
    theta = thresholds(layer, share).double().cpu()
    seen = layer.visible(layer.n, layer.length)
    kept = (layer.future >= theta[:, None, None]) & seen
    return PerRow(kept.sum(-1) / seen.sum(-1).clamp(min=1), (layer.future * kept).sum(-1))


POLICY = TopTheta()

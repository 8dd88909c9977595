"""SnapKV: the keys that the last rows look at, smoothed along the text."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from backend.policies.layer import Layer
from backend.policies.policy import FORCED, Policy

WINDOW, KERNEL = 64, 5


class SnapKV(Policy):
    title = "SnapKV"
    caption = (
        "Keeps the last keys and those that the last rows look at, with their neighbours: the last 64, of a text under "
        "512 tokens the last eighth."
    )
    formula = (
        "score_j = mean of A_ij over the last w rows, mean over the 5 keys around j, mean over the query heads of the "
        "key head; inf for the last w keys; w = 64, or an eighth of the text where that is less"
    )
    source = "SnapKV (Li et al.)"

    def window(self, layer: Layer) -> int:
        """Rows that are looked at: 64, or an eighth of a short text."""
        return min(WINDOW, max(1, layer.n // 8))

    def scores(self, layer: Layer) -> Tensor:
        window = self.window(layer)
        if window == layer.n:  # a text of one token has nothing before its window
            return torch.full((layer.key_heads, window), FORCED)
        seen = layer.weights(layer.n - window, layer.n)[..., : layer.n - window].mean(1)  # [H, n - window]
        smooth = functional.avg_pool1d(seen[None], KERNEL, stride=1, padding=KERNEL // 2)[0]
        own = smooth.new_full((layer.key_heads, window), FORCED)
        return torch.cat([layer.per_key_head(smooth), own], -1)

    def forced(self, layer: Layer) -> int:
        return self.window(layer)

    def note(self, layer: Layer, budget: float) -> str | None:
        window = self.window(layer)
        notes = [super().note(layer, budget)]
        if window < WINDOW:
            notes.insert(0, f"{self.title} looks at the last {WINDOW} rows; of {layer.n:,} tokens it took {window:,}.")
        return " ".join(note for note in notes if note) or None


POLICY = SnapKV()

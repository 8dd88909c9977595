"""Longformer and LED: each token sees a window to both sides, and its code keeps the map as bands.

A band [B, N, H, 2 w + 1] holds, at place o of row i, the weight on key i - w + o. Maps are shown at the keys' true
positions. Tokens with global attention are not offered: their rows and columns lie in other tensors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from backend.errors import Refused
from backend.families import Family

FILL = -1e30  # scores of cells outside the bands


class Bands:
    """The maps of one attention module between its bands and their true places."""

    def __init__(self, module: nn.Module, length: int) -> None:
        self.reach = module.one_sided_attn_window_size
        self.length = length  # tokens; the model pads them to a multiple of its window

    def keys(self, rows: int, device: torch.device) -> Tensor:
        """The key of every place of a band, int64 [rows, 2 w + 1]; outside 0 .. rows - 1 where there is none."""
        places = torch.arange(2 * self.reach + 1, device=device) - self.reach
        return torch.arange(rows, device=device)[:, None] + places

    def place(self, bands: Tensor, fill: float) -> Tensor:
        """[B, N, H, 2 w + 1] -> [B, H, length, length]."""
        width = 2 * self.reach + 1
        if bands.shape[-1] != width:
            raise Refused(
                f"Here {bands.shape[-1] - width} tokens have global attention, whose weights lie outside the windows; "
                "that is not offered. Run the model without a global attention mask."
            )
        rows = bands.shape[1]
        keys = self.keys(rows, bands.device)
        inside = (keys >= 0) & (keys < rows)
        # one column more takes what falls outside
        whole = bands.new_full((bands.shape[0], bands.shape[2], rows, rows + 1), fill)
        index = torch.where(inside, keys, rows).expand(*whole.shape[:3], width)
        whole.scatter_(3, index, bands.transpose(1, 2))
        return whole[:, :, : self.length, : self.length]

    def back(self, maps: Tensor, bands: Tensor) -> Tensor:
        """The bands with changed maps in them; padded rows stay as they were."""
        keys = self.keys(self.length, bands.device)
        inside = (keys >= 0) & (keys < self.length)
        index = keys.clamp(0, self.length - 1).expand(*maps.shape[:3], keys.shape[1])
        taken = torch.where(inside, maps.gather(3, index), 0.0).transpose(1, 2)
        return torch.cat([taken.to(bands.dtype), bands[:, self.length :]], 1)


BANDED = {"LongformerSelfAttention": Bands, "LEDEncoderSelfAttention": Bands}
FAMILIES = (
    Family("Longformer", ("longformer",), "a window to both sides, kept as bands", dense=True, layouts=BANDED),
    Family("LED", ("led",), "windows in the encoder, a decoder as BART's", dense=True, layouts=BANDED),
)

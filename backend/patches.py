"""The patches of a picture that an analysis read, and the picture itself where it was kept.

What an imported file says of itself is looked at before it is believed.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from backend.store import Analysis

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_BYTES, MOST_SIDE = 8_000_000, 4_096  # of a kept picture
SIDE = "self"  # of the token table, on which patches stand


@dataclass(frozen=True)
class Patches:
    """tokens[start : start + rows * columns] are the patches of a picture, row by row."""

    start: int
    rows: int
    columns: int

    @property
    def stop(self) -> int:
        return self.start + self.rows * self.columns

    def place(self, token: int) -> tuple[int, int] | None:
        """Row and column of a token; None where it is no patch."""
        return divmod(token - self.start, self.columns) if self.start <= token < self.stop else None


def patches_of(analysis: Analysis) -> Patches | None:
    """None where the analysis read no picture, or one whose tokens are no grid."""
    said = analysis.info.get("patches")
    if not isinstance(said, dict):
        return None
    start, grid = said.get("start"), said.get("grid")
    numbers = [start, *grid] if isinstance(grid, list) and len(grid) == 2 else []
    if not numbers or not all(type(number) is int for number in numbers) or start < 0 or min(grid) < 1:
        return None
    found = Patches(start, *grid)
    return found if found.stop <= sum(token.side == SIDE for token in analysis.tokens_list()) else None


def kept_picture(analysis: Analysis) -> str | None:
    """The picture as an address that holds it (data:image/png), or None where it was not kept."""
    media = analysis.info.get("media")
    if not isinstance(media, dict) or media.get("type") != "image/png" or not isinstance(media.get("data"), str):
        return None
    try:
        data = base64.b64decode(media["data"], validate=True)
    except (binascii.Error, ValueError):
        return None
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    whole = data.startswith(SIGNATURE) and len(data) <= MOST_BYTES
    if not whole or not 0 < width <= MOST_SIDE or not 0 < height <= MOST_SIDE:
        return None
    return "data:image/png;base64," + base64.b64encode(data).decode()

"""The sizes of an analysis' maps by kind and layer: what an address or a request may name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from backend.errors import NotFound

if TYPE_CHECKING:
    from backend.store import Analysis

SIDES = {  # kind -> the sides of the token table that its queries and its keys are
    "self": ("self", "self"),
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}


@dataclass(frozen=True)
class MapSize:
    """The size of one layer's maps."""

    heads: int
    queries: int
    keys: int


def map_sizes(analysis: Analysis) -> dict[str, dict[int, MapSize]]:
    """kind -> layer -> size, for the captured layers, which have the model's own numbers. NotFound for a study."""
    if analysis.info.get("type") == "study":
        raise NotFound("This is a study, which has no maps of its own. Ask for its tables, or for an analysis it kept.")
    lengths: dict[str, int] = {}
    for token in analysis.tokens_list():
        lengths[token.side] = lengths.get(token.side, 0) + 1
    sizes: dict[str, dict[int, MapSize]] = {}
    for layer in analysis.layers():
        queries, keys = SIDES[layer.kind]
        sizes.setdefault(layer.kind, {})[layer.layer] = MapSize(layer.heads, lengths[queries], lengths[keys])
    return sizes

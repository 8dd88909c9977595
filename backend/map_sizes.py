"""The sizes of an analysis' maps by kind and layer: what an address or a request may name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

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


POOLED = "pooled"  # an axis whose positions stand for several tokens each (Funnel): no token's label belongs there


def axis_sides(analysis: Analysis, kind: str, layer: int) -> tuple[str, str]:
    """The sides of the token table along the queries and the keys of a layer; "pooled 6" where 6 positions are none."""
    size = map_sizes(analysis)[kind][layer]
    counts = Counter(token.side for token in analysis.tokens_list())
    lengths = (size.queries, size.keys)
    return tuple(
        side if counts[side] == length else f"{POOLED} {length}"
        for side, length in zip(SIDES[kind], lengths, strict=True)
    )


def require_tokens(analysis: Analysis, kind: str) -> None:
    """NotFound where some layer of this kind has positions that are no tokens."""
    pooled = [
        layer
        for layer in map_sizes(analysis)[kind]
        if any(side.startswith(POOLED) for side in axis_sides(analysis, kind, layer))
    ]
    if pooled:
        layers = f"layer {pooled[0]} has" if len(pooled) == 1 else f"layers {', '.join(map(str, pooled))} have"
        raise NotFound(
            f"In this model {layers} fewer positions than the text has tokens: layers cannot be compared token by "
            "token. The page Heads shows each of them."
        )


def axis_labels(analysis: Analysis, kind: str, layer: int, labels: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    """Labels of the queries and of the keys of a layer, from those per side; numbers where positions are no tokens."""
    size = map_sizes(analysis)[kind][layer]
    sides, lengths = axis_sides(analysis, kind, layer), (size.queries, size.keys)
    return tuple(
        labels[side] if side in labels else [str(position) for position in range(length)]
        for side, length in zip(sides, lengths, strict=True)
    )


def segment_sides(analysis: Analysis) -> tuple[str, ...]:
    """The side of the token table that every segment is a run of."""
    found = {token.segment: token.side for token in analysis.tokens_list()}
    return tuple(found.get(number, "self") for number in range(len(analysis.segments())))


_KNOWN: WeakKeyDictionary[Analysis, dict[str, dict[int, MapSize]]] = WeakKeyDictionary()  # a file never changes


def map_sizes(analysis: Analysis) -> dict[str, dict[int, MapSize]]:
    """kind -> layer -> size, for the captured layers, which have the model's own numbers. NotFound for a study."""
    if analysis not in _KNOWN:
        _KNOWN[analysis] = _read_sizes(analysis)
    return {kind: dict(layers) for kind, layers in _KNOWN[analysis].items()}


def _read_sizes(analysis: Analysis) -> dict[str, dict[int, MapSize]]:
    if analysis.info.get("type") == "study":
        raise NotFound("This is a study, which has no maps of its own. Ask for its tables, or for an analysis it kept.")
    analysis.tokens_list()  # a file whose axes cannot be named is told apart here, not in the middle of a page
    sizes: dict[str, dict[int, MapSize]] = {}
    for row in analysis.table("layers").to_pylist():
        sizes.setdefault(row["kind"], {})[row["layer"]] = MapSize(row["heads"], row["queries"], row["keys"])
    return sizes

"""What is saved, by formula: bytes of the cache and operations of attention, at any length.

Keys that a layer's window has left behind are in no cache and in no count, whatever is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backend.errors import Refused
from backend.types import LayerInfo


@dataclass(frozen=True)
class Costs:
    """Of one text of `length` tokens."""

    cache_bytes: int  # keys and values of all layers
    decode_operations: int  # attention of one more token: products and sums with every kept key and value
    prefill_operations: int  # attention of the whole text, over the kept pairs


def costs(layers: Iterable[LayerInfo], length: int, keep: float = 1.0, bytes_per_number: int = 2) -> Costs:
    """keep: share of the reachable keys (or of the visible pairs) that stays. Layers without softmax cost nothing here.

    Products and sums count as two operations; the softmax itself is not counted.
    """
    if length < 1 or not 0 <= keep <= 1:
        raise Refused(f"Expected a length of 1 or more and a share from 0 to 1, got {length} and {keep}.")
    cache = decode = prefill = 0
    for layer in layers:
        if layer.attention != "softmax":
            continue
        reach = length if layer.window_size is None else min(length, layer.window_size)
        kept = int(keep * reach + 1e-9)
        wide = layer.head_dim + layer.value_dim
        pairs = reach * (reach + 1) // 2 + (length - reach) * reach
        cache += layer.key_heads * kept * wide * bytes_per_number
        decode += 2 * layer.heads * kept * wide
        prefill += 2 * layer.heads * int(keep * pairs + 1e-9) * wide
    return Costs(cache, decode, prefill)

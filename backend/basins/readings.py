"""Texts that were read, with their keys and values: what two texts begin with alike is read once.

A text is read in blocks of BLOCK tokens from its start, whether or not some of them are kept already, so that what is
kept never changes a number, not even in the last digit. Only for models of which `why_not_reusable` says nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from backend.basins.passes import Prefix, opened, session, step
from backend.estimate import attention_layers, free_memory_mb
from backend.models import LoadedModel
from backend.options import MEGABYTE
from backend.probes import first_weight

BLOCK = 256  # tokens
ROOM_MB = 1024  # that one model's readings may take, and never more than a quarter of what is free

Block = list[tuple[Tensor, Tensor]]  # of every layer: keys and values [1, Hk, tokens, D]


@dataclass(eq=False)
class Readings:
    """What is kept of one model."""

    blocks: dict[tuple[int, ...], Block] = field(default_factory=dict)  # by all tokens up to the block's end
    megabytes: float = 0.0
    shell: Any = None  # a cache as the model makes it, without keys and values

    def keep(self, ids: tuple[int, ...], block: Block, room: float) -> None:
        """Keeps a block where there is room for it."""
        size = sum(part.nbytes for pair in block for part in pair) / MEGABYTE
        if self.megabytes + size <= room:
            self.blocks[ids] = block
            self.megabytes += size

    def cache(self, blocks: Sequence[Block]) -> Any:
        """A cache of these blocks, free to grow: growing makes new tensors."""
        new = opened(self.shell)
        for layer, *pairs in zip(layers_of(new), *blocks, strict=True):
            layer.keys = torch.cat([keys for keys, _ in pairs], dim=2)
            layer.values = torch.cat([values for _, values in pairs], dim=2)
        return new


_readings: weakref.WeakKeyDictionary[nn.Module, Readings] = weakref.WeakKeyDictionary()


def prefix_of(model: LoadedModel, token_ids: Sequence[int], stop: Callable[[], None] = lambda: None) -> Prefix:
    """The text read, with its keys and values; blocks that were read before are taken from memory.

    What is kept stays until `forget`. Not within a session.
    """
    own, ids = _readings.setdefault(model.model, Readings()), tuple(token_ids)
    room, blocks = room_mb(model), []
    with session(model):
        for start in range(0, len(ids), BLOCK):
            upto = ids[: start + BLOCK]
            block = own.blocks.get(upto)
            if block is None:
                stop()
                cache = step(model, upto[start:], own.cache(blocks) if blocks else None).cache
                block = [(one.keys[:, :, start:].clone(), one.values[:, :, start:].clone()) for one in layers_of(cache)]
                own.shell = own.shell or emptied(cache)
                own.keep(upto, block, room)
            blocks.append(block)
    return Prefix(ids, own.cache(blocks))


def layers_of(cache: Any) -> list[Any]:
    """The layers of a cache that hold keys: some models have layers that read those of others."""
    return [layer for layer in cache.layers if layer.is_initialized]


def emptied(cache: Any) -> Any:
    """The same cache without its keys and values."""
    new = opened(cache)
    for layer in layers_of(new):
        layer.keys = layer.values = None
    return new


def forget(model: LoadedModel) -> None:
    """Frees the memory of what was read."""
    _readings.pop(model.model, None)


def room_mb(model: LoadedModel) -> float:
    """Memory that readings of this model may take now, in MB."""
    return min(ROOM_MB, free_memory_mb(model) / 4)


def kept_mb(model: LoadedModel, n_tokens: float) -> float:
    """Memory that keys and values of so many tokens take, in MB."""
    each = sum(layer.key_heads * (layer.head_dim + layer.value_dim) for layer in attention_layers(model))
    return n_tokens * each * first_weight(model.model).element_size() / MEGABYTE

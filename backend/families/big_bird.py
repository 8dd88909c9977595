"""BigBird and BigBird-Pegasus: full attention on short prompts, sparse blocks on long ones.

Given a short prompt the model exchanges its sparse attention modules for full ones, and stays so for whoever comes next
with a long one. `steady` puts the sparse ones back.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from transformers import PreTrainedConfig

from backend.families import Family

SPARSE, FULL = "block_sparse", "original_full"
_full: weakref.WeakKeyDictionary[nn.Module, nn.Module] = weakref.WeakKeyDictionary()  # attention -> its full part


@contextmanager
def steady(model: nn.Module) -> Iterator[None]:
    """Inside, every attention is full; afterwards it is what it was. The full parts are made once and kept."""
    parts = [part for part in model.modules() if getattr(part, "attention_type", None) == SPARSE]
    holders = [part for part in parts if isinstance(getattr(part, "self", None), nn.Module)]
    before = [(part, part.self) for part in holders]
    try:
        for number, part in enumerate(holders):
            if part in _full:
                part.self = _full[part]
            else:
                takes = inspect.signature(part.set_attention_type).parameters
                part.set_attention_type(FULL, **({"layer_idx": number} if "layer_idx" in takes else {}))
                _full[part] = part.self
        for part in parts:
            part.attention_type = FULL
        yield
    finally:
        for part, sparse in before:
            part.self = sparse
        for part in parts:
            part.attention_type = SPARSE


def most_tokens(config: PreTrainedConfig) -> int | None:
    """The longest prompt that is read with full attention; above it only sparse blocks are computed."""
    return (5 + 2 * config.num_random_blocks) * config.block_size if config.attention_type == SPARSE else None


FAMILIES = tuple(
    Family(title, (name,), note, dense=True, steady=steady, most_tokens=most_tokens)
    for title, name, note in (
        ("BigBird", "big_bird", "full attention; prompts long enough for its sparse blocks are refused"),
        ("BigBird-Pegasus", "bigbird_pegasus", "the same in the encoder, a decoder as BART's"),
    )
)

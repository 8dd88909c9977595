"""The families whose maps are proved, and what the others do instead. One file per group; the folder is the registry.

Capture itself is generic: it sits in transformers' attention interface and knows no family. A file here says that maps
of its model types were compared with a separate copy of the model set to eager (tests/backend/test_families.py; the
errors are in docs/models.md), names the layers that are not softmax attention, or says why a family is refused.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from torch import Tensor, nn
from transformers import PreTrainedConfig


class Layout(Protocol):
    """How an attention module lays out its map, where that is not [B, H, Nq, Nk]."""

    def place(self, values: Tensor, fill: float) -> Tensor:
        """The module's tensor as [B, H, Nq, Nk], cells without a value filled."""

    def back(self, maps: Tensor, values: Tensor) -> Tensor:
        """Maps [B, H, Nq, Nk] in the module's layout; `values` is what they take the place of."""


@dataclass(frozen=True)
class Family:
    """A group of model types."""

    title: str
    model_types: tuple[str, ...]  # config.model_type
    notes: str  # what its attention does differently, for docs/models.md
    mixers: dict[str, str] = field(default_factory=dict)  # module class -> what such a layer does instead of attention
    refusal: str | None = None  # why the family cannot be captured; None = proved
    dense: bool = False  # its code computes its own softmax, which is watched: backend/dense.py
    steady: Callable[[nn.Module], AbstractContextManager] | None = None  # keeps a model from changing while it runs
    most_tokens: Callable[[PreTrainedConfig], int | None] | None = None  # the longest prompt whose maps can be read
    layouts: dict[str, Callable[[nn.Module, int], Layout]] = field(default_factory=dict)  # module class -> its layout


@cache
def families() -> tuple[Family, ...]:
    """All families, in order of their files."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    return tuple(family for module in modules for family in module.FAMILIES)


def family_of(model_type: str) -> Family | None:
    """The family of a model type, or None where it is not in the list."""
    return next((family for family in families() if model_type in family.model_types), None)


def steady(model: nn.Module) -> AbstractContextManager:
    """Inside, a model that would change its own parts for a short prompt, and stay so, is kept from it."""
    family = family_of(model.config.get_text_config().model_type)
    return nullcontext() if family is None or family.steady is None else family.steady(model)


def layout_of(module: nn.Module, length: int) -> Layout | None:
    """The layout of an attention module's map for a prompt of that many tokens; None for [B, H, Nq, Nk]."""
    known = {name: layout for family in families() for name, layout in family.layouts.items()}
    layout = known.get(type(module).__name__)
    return None if layout is None else layout(module, length)


def mixer_name(block: nn.Module) -> str:
    """What a layer without softmax attention does, in words."""
    known = {name: title for family in families() for name, title in family.mixers.items()}
    classes = [type(module).__name__ for module in block.modules()]
    title = next((known[name] for name in classes if name in known), None)
    return title or f"no softmax attention ({', '.join(dict.fromkeys(type(m).__name__ for m in block.children()))})"

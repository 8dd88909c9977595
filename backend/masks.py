"""CompactMask: who sees whom, as a rule instead of an N x N tensor.

transformers describes a mask as a function of (batch, head, query, key). `read_rule` finds the rule that this function
follows (causal, window, two-sided window, chunk) by comparing both on sampled blocks, well past the prompt's end so
that rules which agree on a short prompt are told apart. Where no rule fits, the boolean mask is the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kernels.score import ScoreSpec


@dataclass(frozen=True)
class Rule:
    """A mask that needs no tensor. `None` everywhere and causal False: every query sees every key."""

    causal: bool
    window: int | None = None  # number of keys seen, itself included
    around: tuple[int, int] | None = None  # keys seen to the left and right, itself not counted
    chunk: int | None = None

    def visible(self, query: Tensor, key: Tensor) -> Tensor:
        """bool, broadcast over the positions of queries and keys."""
        seen = key <= query if self.causal else torch.ones_like(key + query, dtype=torch.bool)
        if self.window is not None:
            seen = seen & (key > query - self.window)
        if self.around is not None:
            seen = seen & (query - key <= self.around[0]) & (key - query <= self.around[1])
        if self.chunk is not None:
            seen = seen & (query // self.chunk == key // self.chunk)
        return seen


@dataclass(frozen=True, eq=False)
class CompactMask:
    """What the model hands to its attention layers in place of a mask tensor."""

    shape: tuple[int, int, int, int]  # (B, 1, Nq, Nk) as the model believes
    rule: Rule
    keys: int  # columns that exist; a fixed-size cache holds empty slots behind them
    key_padding: Tensor | None = None  # bool [B, keys], True = real token; None = all real
    visible: Tensor | None = None  # bool [B, 1, Nq, keys] where no rule fits; the rule is then empty

    ndim = 4  # transformers asks, to tell a prepared mask from a padding mask
    dtype = torch.bool

    def to(self, *args, **kwargs) -> CompactMask:
        """The same mask on another device (transformers and accelerate move masks like tensors)."""
        moved = {
            name: tensor.to(*args, **kwargs).bool()
            for name in ("key_padding", "visible")
            if (tensor := getattr(self, name)) is not None
        }
        return replace(self, **moved)

    def score(self, device: torch.device, **terms) -> ScoreSpec:
        """The ScoreSpec of a layer under this mask; `terms` are its other fields (scale, softcap, sink ...)."""
        padding = None if self.key_padding is None else self.key_padding.to(device)
        visible = None if self.visible is None else self.visible.to(device)
        rule = self.rule
        return ScoreSpec(
            causal=rule.causal,
            window=rule.window,
            around=rule.around,
            chunk=rule.chunk,
            key_padding=padding,
            mask=visible,
            **terms,
        )


def candidates(local_size: int | None) -> list[Rule]:
    """The rules a mask may follow. `local_size` means window, half width or chunk, depending on the family."""
    if local_size is None:
        return [Rule(causal=True), Rule(causal=False)]
    return [
        Rule(causal=True, window=local_size),
        Rule(causal=False, around=(local_size, local_size)),
        Rule(causal=True, chunk=local_size),
        Rule(causal=True),
        Rule(causal=False),
    ]


def sampled_positions(length: int, local_size: int | None) -> Tensor:
    """About 90 positions that show every edge of a rule: int64, ascending, up to three local sizes past the end."""
    reach = length + 3 * (local_size or 0) + 4
    edges = [0, 1, 2, 3, length // 2, length - 2, length - 1, length, reach - 1]
    for multiple in range(1, 4):
        middle = multiple * (local_size or 0)
        edges += range(middle - 2, middle + 3)
    spread = [reach * step // 40 for step in range(40)]
    scattered = [(step * 7919 + 13) % reach for step in range(24)]
    return torch.tensor(sorted({p for p in [*edges, *spread, *scattered] if 0 <= p < reach}))


def read_rule(
    mask_function: Callable, batch: int, length: int, local_size: int | None, device: torch.device | str
) -> Rule | None:
    """The rule that `mask_function` follows on sampled blocks, or None.

    Only for functions of positions alone: transformers says so by allowing a mask to be skipped.
    """
    positions = sampled_positions(length, local_size).to(device)
    query, key = positions[None, None, :, None], positions[None, None, None, :]
    sample = torch.arange(batch, device=device)[:, None, None, None]
    head = torch.zeros(1, 1, 1, 1, dtype=torch.int64, device=device)
    seen = mask_function(sample, head, query, key)
    for rule in candidates(local_size):
        if bool((seen == rule.visible(query, key)).all()):
            return rule
    return None


def mask_of_tensor(mask: Tensor, n_query: int, n_key: int) -> tuple[Tensor | None, Tensor | None]:
    """A mask tensor [B, 1 or H, Nq, Nk] as a bool mask and, where it is not 0 on visible cells, an additive bias."""
    mask = mask[..., :n_query, :n_key]
    if mask.dtype == torch.bool:
        return mask, None
    visible = mask > torch.finfo(mask.dtype).min / 2
    bias = torch.where(visible, mask, 0.0)
    return visible, bias if bool(bias.any()) else None

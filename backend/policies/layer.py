"""What a policy may look at: the queries and keys of one layer after a text of n tokens was read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from backend.errors import Refused
from backend.masks import Rule
from backend.rotary import Rotary
from kernels.api import weights
from kernels.score import ScoreSpec
from kernels.window import visible

ROWS_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of one text of N tokens, of which the first n are in the cache when a policy decides.

    A policy looks at the first n rows only; the rows behind them are for the oracle and for measuring.
    """

    number: int  # the model's own
    place: int  # among the layers with a cache, from 0
    layers: int  # how many there are
    n: int
    query: Tensor  # [H, N, D]
    key: Tensor  # [Hk, N, D]
    lse: Tensor  # [H, N]
    score: ScoreSpec
    value_norm: Tensor | None = None  # [Hk, N]
    rotary: Rotary | None = None

    def __post_init__(self) -> None:
        if not self.score.causal:
            raise Refused("A policy needs a cache, and a model that reads both ways has none: only patterns apply.")
        if not 1 <= self.n < self.query.shape[1]:
            raise Refused(
                f"The context must leave at least one token behind it: expected 1 to {self.query.shape[1] - 1} tokens, "
                f"got {self.n}."
            )

    @property
    def heads(self) -> int:
        return self.query.shape[0]

    @property
    def key_heads(self) -> int:
        return self.key.shape[0]

    @property
    def group(self) -> int:
        """Query heads per key head."""
        return self.heads // self.key_heads

    @property
    def length(self) -> int:
        """N."""
        return self.query.shape[1]

    def weights(self, start: int, stop: int) -> Tensor:
        """Weights of some rows on the keys before the end of the last one: float32 [H, rows, stop]."""
        rows, columns = slice(start, stop), slice(0, stop)
        return weights(self.query[None], self.key[None], self.score, self.lse[None], rows, columns)[0]

    def visible(self, start: int, stop: int) -> Tensor:
        """Which of the keys before the end of the last row each of some rows sees: bool [H or 1, rows, stop]."""
        return visible(self.score, self.length, self.length, slice(start, stop), slice(0, stop))[0].cpu()

    def per_key_head(self, values: Tensor) -> Tensor:
        """Mean over the query heads that share a key head: [H, ...] -> [Hk, ...]."""
        return values.reshape(self.key_heads, self.group, *values.shape[1:]).mean(1)

    @cached_property
    def reachable(self) -> Tensor:
        """Which of the n keys a later row can still see: bool [n]. The others are gone already, and no saving."""
        score = self.score
        rule = Rule(True, score.window, None, score.chunk)
        seen = rule.visible(torch.tensor(self.n), torch.arange(self.n))
        return seen | (torch.arange(self.n) < score.keep_first)

    @cached_property
    def received(self) -> Tensor:
        """Mean weight that each of the n keys got from the rows of the context that see it: [H, n]."""
        total, rows = torch.zeros(self.heads, self.n), torch.zeros(1, self.n)
        for start in range(0, self.n, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, self.n)
            total[:, :stop] += self.weights(start, stop).sum(1).cpu()
            rows = rows + functional.pad(self.visible(start, stop).sum(1), (0, self.n - stop))
        return total / rows.clamp(min=1)

    @cached_property
    def future(self) -> Tensor:
        """Weights of the rows behind the context, [H, N - n, N], float64."""
        return self.weights(self.n, self.length).double().cpu()

    @cached_property
    def future_mass(self) -> Tensor:
        """What the rows behind the context give to each of the n keys, summed over rows and group: [Hk, n]."""
        return self.per_key_head(self.future[:, :, : self.n].sum(1)) * self.group

    def without_future(self) -> Layer:
        """The same layer as a policy would find it, for a test that no policy but the oracle looks ahead."""
        n = self.n
        return replace(
            self,
            query=torch.cat([self.query[:, :n], torch.zeros_like(self.query[:, n:])], 1),
            key=torch.cat([self.key[:, :n], torch.zeros_like(self.key[:, n:])], 1),
            lse=torch.cat([self.lse[:, :n], torch.zeros_like(self.lse[:, n:])], 1),
        )

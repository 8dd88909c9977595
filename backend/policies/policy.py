"""Policy: a score for every key, and a rule how many each head keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from backend.errors import Refused
from backend.policies.layer import Layer

FORCED = torch.inf  # the score of a key that is kept whatever it is worth


@dataclass(frozen=True, eq=False)
class Scored:
    """What a policy says of one layer."""

    number: int  # of the layer
    values: Tensor  # [Hk, n], larger = kept first; FORCED = kept first of all
    reachable: Tensor  # bool [n]: the keys that can be kept at all
    heads: Tensor | None = None  # [Hk], where a policy ranks heads as well

    def count(self, budget: float) -> int:
        """Keys that each key head may keep."""
        return int(budget * int(self.reachable.sum()) + 1e-9)


class Policy(ABC):
    """Base of all policies. Every one looks at the context alone (the oracle says that it does not).

    Ties are broken by position: the later key is kept.
    """

    title: ClassVar[str]
    caption: ClassVar[str]  # what it keeps, one sentence
    formula: ClassVar[str]
    source: ClassVar[str]
    needs_rotary: ClassVar[bool] = False  # works on queries before the rotary embedding
    looks_ahead: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name of the file."""
        return type(self).__module__.rpartition(".")[2]

    @abstractmethod
    def scores(self, layer: Layer) -> Tensor:
        """[Hk, n]."""

    def head_scores(self, layer: Layer) -> Tensor | None:
        """[Hk] where the policy ranks heads, else None."""
        return None

    def forced(self, layer: Layer) -> int:
        """How many keys of a head it keeps whatever they are worth."""
        return 0

    def scored(self, layer: Layer) -> Scored:
        """What `choose` works on."""
        values = self.scores(layer).double().cpu()
        if values.shape != (layer.key_heads, layer.n):
            raise ValueError(f"policy {self.name}: expected {(layer.key_heads, layer.n)} scores, got {values.shape}")
        heads = self.head_scores(layer)
        return Scored(layer.number, values, layer.reachable, None if heads is None else heads.double().cpu())

    def choose(self, scored: Sequence[Scored], budget: float) -> list[Tensor]:
        """Kept keys of every layer, bool [Hk, n]: the best ones of each key head, as many for each."""
        return [best(one.values, one.reachable, [one.count(budget)] * len(one.values)) for one in scored]

    def note(self, layer: Layer, budget: float) -> str | None:
        """What must be said about this budget on this text; None where the policy is as its authors made it."""
        forced, count = self.forced(layer), int(budget * int(layer.reachable.sum()) + 1e-9)
        if forced > count > 0:
            return (
                f"{self.title} always keeps {forced:,} keys and the budget is {count:,}: "
                "only the latest of them are kept."
            )
        return None


def best(values: Tensor, reachable: Tensor, counts: Sequence[int]) -> Tensor:
    """The `counts[h]` best reachable keys of every key head: bool [Hk, n]."""
    kept = torch.zeros_like(values, dtype=torch.bool)
    for head, count in enumerate(counts):
        kept[head, order(values[head], reachable)[:count]] = True
    return kept


def order(values: Tensor, reachable: Tensor) -> Tensor:
    """Places of the reachable keys, best first; of equals the later one first."""
    if bool(values.isnan().any()):
        raise Refused("A policy gave a key no score: the model's numbers are not finite.")
    places = torch.flip(torch.nonzero(reachable)[:, 0], (0,))
    return places[torch.argsort(values[places], descending=True, stable=True)]

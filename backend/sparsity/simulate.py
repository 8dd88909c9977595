"""What every policy would keep of a text, and how much of the attention of the rows behind it that would save.

The text has N tokens; the first n are in the cache when the policy decides, the rows behind them are the judges. A row
keeps what it gives to kept keys and to the keys behind the context, which are in the cache anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from backend import policies
from backend.errors import Refused
from backend.policies import Layer, Scored
from backend.policies.policy import best
from backend.sparsity.retained import FLOOR

Layers = Sequence[Callable[[], Layer]]


@dataclass(frozen=True, eq=False)
class Judged:
    """One policy at one budget on one layer."""

    layer: int
    kept: Tensor  # bool [Hk, n]
    reachable: int  # keys that could have been kept, per key head
    retained: Tensor  # float64 [H] mean over the later rows of m
    divergence: Tensor  # [H] mean of -ln m
    best_possible: Tensor  # [H] mean of m with as many keys of this key head as it kept, the best ones
    uniform: Tensor  # [H] what retained is of a head that looks at all it sees alike
    overlap: Tensor  # [Hk] shared keys over all keys of both sets, with that best choice; NaN where both are empty


@dataclass(frozen=True, eq=False)
class Outcome:
    """One policy at one budget on a whole text."""

    policy: str
    budget: float
    layers: tuple[Judged, ...]
    note: str | None = None

    @property
    def kept_share(self) -> float:
        """Kept keys over the keys that could be kept, all layers and key heads."""
        return sum(int(one.kept.sum()) for one in self.layers) / max(
            1, sum(one.reachable * len(one.kept) for one in self.layers)
        )

    @property
    def retained(self) -> float:
        """Mean over all heads of all layers."""
        return float(torch.cat([one.retained for one in self.layers]).mean())

    @property
    def divergence(self) -> float:
        """Mean of -ln m over all heads: the prediction that costs no run, in nats."""
        return float(torch.cat([one.divergence for one in self.layers]).mean())

    @property
    def best_possible(self) -> float:
        return float(torch.cat([one.best_possible for one in self.layers]).mean())

    @property
    def uniform(self) -> float:
        """What uniform attention would retain with the same keys: the baseline of `retained`, over the same rows."""
        return float(torch.cat([one.uniform for one in self.layers]).mean())

    @property
    def overlap(self) -> float:
        return float(torch.cat([one.overlap for one in self.layers]).nanmean())

    def survival(self, start: int, stop: int) -> float:
        """Share of the (key head, key) pairs of a run of tokens that is kept: 1 = the needle is still there."""
        inside = torch.cat([one.kept[:, start:stop] for one in self.layers])
        return float(inside.double().mean()) if inside.numel() else float("nan")


@dataclass(eq=False)
class Simulation:
    """Scores of all policies on one text; budgets can be asked for one after the other."""

    layers: Layers
    names: tuple[str, ...]
    scored: dict[str, list[Scored]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # policy -> why it could not be scored

    @classmethod
    def of(cls, layers: Layers, names: Iterable[str], step: Callable[[int], None] = lambda _: None) -> Simulation:
        """step(layers done) is called before each layer."""
        made = cls(layers, tuple(names))
        shelf = policies.all()
        for at, load in enumerate(layers):
            step(at)
            layer = load()
            for name in made.names:
                if name in made.refused:
                    continue
                try:
                    made.scored.setdefault(name, []).append(shelf[name].scored(layer))
                except Refused as reason:
                    made.refused[name] = str(reason)
                    made.scored.pop(name, None)
        return made

    def kept(self, name: str, budget: float) -> list[Tensor]:
        """What a policy keeps, per layer: bool [Hk, n]."""
        check_budget(budget)
        return policies.all()[name].choose(self.scored[name], budget)

    def outcomes(self, budget: float, step: Callable[[int], None] = lambda _: None) -> list[Outcome]:
        """All policies at one budget, the layers read once."""
        chosen = {name: self.kept(name, budget) for name in self.names if name in self.scored}
        found: dict[str, list[Judged]] = {name: [] for name in chosen}
        notes: dict[str, str | None] = {}
        for at, load in enumerate(self.layers):
            step(at)
            layer = load()
            for name, kept in chosen.items():
                found[name].append(judge(layer, kept[at]))
                notes[name] = notes.get(name) or policies.all()[name].note(layer, budget)
        counted = what_was_counted(next(iter(found.values()), []), budget)
        return [
            Outcome(name, budget, tuple(judged), " ".join(note for note in (*counted, notes[name]) if note) or None)
            for name, judged in found.items()
        ]


def what_was_counted(layers: Sequence[Judged], budget: float) -> list[str]:
    """What must be said of a budget on these layers, whatever policy spends it."""
    said = []
    if budget == 0:
        said.append("No key of the context is kept: what is retained lies on the tokens behind it.")
    elif budget == 1:
        said.append("Every key that can be reached is kept: nothing is saved.")
    n, reach = max((one.kept.shape[1] for one in layers), default=0), [one.reachable for one in layers]
    short = [count for count in reach if count < n]
    if short:
        keys = f"{min(short):,}" if min(short) == max(short) else f"{min(short):,} to {max(short):,}"
        said.append(
            f"In {len(short):,} of {len(reach):,} layers later rows reach only {keys} of the {n:,} keys: those already "
            "out of reach are no saving, and budgets are shares of the rest."
        )
    return said


def judge(layer: Layer, kept: Tensor) -> Judged:
    """What the rows behind the context keep."""
    mass = retained_mass(layer, kept)
    counts = kept.sum(-1).tolist()
    ideal = best(layer.future_mass, layer.reachable, counts)
    either = (ideal | kept).sum(-1).double()
    return Judged(
        layer=layer.number,
        kept=kept,
        reachable=int(layer.reachable.sum()),
        retained=mass.mean(-1),
        divergence=-mass.clamp(FLOOR, 1.0).log().mean(-1),
        best_possible=retained_mass(layer, ideal).mean(-1),
        uniform=uniform_mass(layer, kept).mean(-1),
        overlap=torch.where(either > 0, (ideal & kept).sum(-1) / either, torch.nan),
    )


def retained_mass(layer: Layer, kept: Tensor) -> Tensor:
    """m of every later row, over its visible mass: float64 [H, N - n]."""
    future, n = layer.future, layer.n
    of_head = kept.repeat_interleave(layer.group, 0).double()
    inside = torch.einsum("hrk,hk->hr", future[:, :, :n], of_head) + future[:, :, n:].sum(-1)
    return inside / future.sum(-1).clamp(min=FLOOR)


def uniform_mass(layer: Layer, kept: Tensor) -> Tensor:
    """Kept keys that every later row sees over all that it sees: float64 [H, N - n]."""
    seen, n = layer.visible(layer.n, layer.length).double(), layer.n
    inside = seen[:, :, :n] @ kept.repeat_interleave(layer.group, 0).double()[:, :, None]
    return (inside[..., 0] + seen[:, :, n:].sum(-1)) / seen.sum(-1).clamp(min=1)


def check_budget(budget: float) -> None:
    """Refused outside 0 to 1."""
    if not 0 <= budget <= 1:
        raise Refused(f"A budget is the share of keys that is kept: expected 0 to 1, got {budget!r}.")

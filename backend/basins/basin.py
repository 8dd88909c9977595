"""The basin of one prompt: what every part gets, per head, from the rows of the question or the last one (B-01)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backend.basins.received import received
from backend.basins.slots import Slots
from backend.basins.stored import stored_sinks
from backend.errors import NoExactMap
from backend.store import Analysis


@dataclass(frozen=True, eq=False)
class Basin:
    """Weight on every token, mean over the looking rows, for every head whose exact map was kept."""

    slots: Slots
    places: tuple[tuple[int, int], ...]  # (layer, head)
    weight: np.ndarray  # float64 [heads, N]; NaN where no looking row sees the token, or it is a sink left out
    uniform: np.ndarray  # the same of uniform attention over the visible keys
    left_out: int  # heads without an exact map
    sink_tokens: int  # different tokens left out as sinks of some head; 0 where sinks are shown

    def chosen(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """Which rows of `weight` belong to a head, a layer, or (neither) the whole model: bool [heads]."""
        return np.array([layer in (None, own) and head in (None, one) for own, one in self.places], bool)

    def masses(self, *, per_token: bool, uniform: bool = False) -> np.ndarray:
        """What each part gets: [heads, parts]. NaN where it is out of reach of every looking row."""
        source = self.uniform if uniform else self.weight
        return np.stack([part_mass(source[:, p.start : p.stop], per_token) for p in self.slots.parts], -1)

    def profile(self, layer: int | None = None, head: int | None = None, *, per_token: bool, uniform: bool = False):
        """Mean over the chosen heads that see the part: [parts]."""
        return mean_of(self.masses(per_token=per_token, uniform=uniform)[self.chosen(layer, head)], 0)

    def tokens(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """Mean over the chosen heads of the weight on each token: [N]."""
        return mean_of(self.weight[self.chosen(layer, head)], 0)


def part_mass(values: np.ndarray, per_token: bool) -> np.ndarray:
    """Sum or mean over the tokens [..., tokens] of a part that have a value; NaN where none has."""
    there = np.isfinite(values)
    total, count = np.where(there, values, 0.0).sum(-1), there.sum(-1)
    found = total / np.maximum(count, 1) if per_token else total
    return np.where(count > 0, found, np.nan)


def mean_of(values: np.ndarray, axis: int) -> np.ndarray:
    """Mean over what is defined; NaN where nothing is."""
    there = np.isfinite(values)
    count = there.sum(axis)
    return np.where(count > 0, np.where(there, values, 0.0).sum(axis) / np.maximum(count, 1), np.nan)


def read_basin(
    analysis: Analysis,
    slots: Slots,
    *,
    kind: str = "self",
    looking: str = "question",
    sinkfree: bool = True,
    stop: Callable[[], None] = lambda: None,
) -> Basin:
    """From the stored queries and keys. NoExactMap where none were kept."""
    rows = slots.rows(looking)
    sinks = stored_sinks(analysis, kind) if sinkfree else {}
    places, weight, uniform, left_out, sink_tokens = [], [], [], 0, set()
    for info in analysis.layers(kind):
        stop()
        exact = analysis.exact_heads(info.layer, kind)
        left_out += info.heads - len(exact)
        for head in exact:
            window = {"rows": rows, "kind": kind}
            own = sinks.get((info.layer, head))
            found = received(
                analysis.map(info.layer, head, **window), analysis.visible(info.layer, head, **window), own
            )
            places.append((info.layer, head))
            weight.append(found.weight)
            uniform.append(found.uniform)
            sink_tokens |= set(own or ())
    if not places:
        raise NoExactMap(
            "No exact map was kept for this prompt, so the mass of its parts cannot be computed. Run it again with "
            "exact maps."
        )
    return Basin(slots, tuple(places), np.array(weight), np.array(uniform), left_out, len(sink_tokens))

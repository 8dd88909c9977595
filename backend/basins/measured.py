"""One pass over a prompt of parts, measured: what each part and each token gets, per head and in the mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from backend.basins.captured import SINKS_REQUEST, layer_rows, layer_sinks
from backend.basins.passes import Prefix, Step, session, step
from backend.basins.received import received
from backend.basins.slots import Slots
from backend.interventions import Intervention
from backend.models import LoadedModel
from backend.types import LayerCapture, Segment
from kernels.measures import NOTHING

Place = tuple[int, int]  # (layer, head)
AllSinks = dict[Place, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Measured:
    """Mean weight on every token from the rows that look, of every head: [heads, N] per looking; NaN out of reach."""

    places: list[Place]
    tokens: dict[str, np.ndarray]  # "question", "last"
    sinks: AllSinks
    read: Step

    def mean(self, looking: str) -> np.ndarray:
        """Mean over heads, [N]."""
        values = self.tokens[looking]
        there = np.isfinite(values)
        count = there.sum(0)
        return np.where(count > 0, np.where(there, values, 0.0).sum(0) / np.maximum(count, 1), np.nan)

    def parts(self, slots: Slots, looking: str) -> np.ndarray:
        """Share per token of every part, mean over heads: [K]."""
        heads = [self.head_parts(slots, looking, at) for at in range(len(self.places))]
        there = np.isfinite(heads)
        count = there.sum(0)
        return np.where(count > 0, np.where(there, heads, 0.0).sum(0) / np.maximum(count, 1), np.nan)

    def head_parts(self, slots: Slots, looking: str, at: int) -> np.ndarray:
        """Of one head."""
        found = []
        for part in slots.parts:
            own = self.tokens[looking][at, part.start : part.stop]
            own = own[np.isfinite(own)]
            found.append(own.mean() if len(own) else np.nan)
        return np.array(found)


def measure(
    model: LoadedModel,
    token_ids: Sequence[int],
    slots: Slots,
    *,
    sinks: AllSinks | None = None,
    prefix: Prefix | None = None,
    sinkfree: bool = True,
    interventions: Sequence[Intervention] = (),
    segments: Sequence[Segment] = (),
    stop: Callable[[], None] = lambda: None,
) -> Measured:
    """Reads the prompt. sinks: those of another pass; None: detected in this one, which must then read everything.

    prefix: what was read before; the tokens that are the same are not read again.
    """
    looking = {"question": slots.rows("question"), "last": slots.rows("last" if model.causal else "first")}
    first = min(rows.start for rows in looking.values())
    reused = 0 if prefix is None or (sinkfree and sinks is None) else prefix.shared(token_ids, first)
    places: list[Place] = []
    found: dict[str, list[np.ndarray]] = {name: [] for name in looking}
    known: AllSinks = dict(sinks or {})

    def keep(layer: LayerCapture) -> None:
        stop()
        here = [(layer.info.layer, head) for head in range(layer.info.heads)]
        places.extend(here)
        if sinkfree and sinks is None:
            known.update(zip(here, layer_sinks(layer), strict=True))
        for name, rows in looking.items():
            weights, seen = layer_rows(layer, rows)
            for head, place in enumerate(here):
                own = known.get(place, ()) if sinkfree else None
                found[name].append(received(weights[head], seen[head], own).weight)

    request = SINKS_REQUEST if sinkfree and sinks is None else NOTHING
    with session(model, request=request, on_layer=keep, interventions=interventions, segments=segments):
        read = step(model, token_ids[reused:], None if reused == 0 else prefix.first(reused))
    return Measured(places, {name: np.array(rows) for name, rows in found.items()}, known, read)

"""ACT's calibration of later sinks (I-03, K-06): in every head, the weights on all sinks but the first are scaled.

What is freed in a row goes to the keys that are no scaled sinks, in proportion to their weights; rows keep their sum.
"""

from __future__ import annotations

import numpy as np

from backend.interventions import Intervention, ScaleKeys

FACTOR = 0.4


def act(
    sinks: np.ndarray,
    layers: tuple[int, ...],
    heads: tuple[tuple[int, int], ...] | None = None,
    factor: float = FACTOR,
) -> list[Intervention]:
    """One intervention per set of keys; none where no chosen head has a second sink.

    sinks: bool [L, H, N] as in detection.detected; layers: the model's own numbers; heads: the chosen ones, None = all.
    """
    by_keys: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for place, head in np.argwhere(sinks.any(-1)).tolist():
        later = tuple(np.flatnonzero(sinks[place, head])[1:].tolist())
        name = (layers[place], head)
        if later and (heads is None or name in heads):
            by_keys.setdefault(later, []).append(name)
    return [ScaleKeys(heads=tuple(names), keys=keys, factor=factor) for keys, names in sorted(by_keys.items())]

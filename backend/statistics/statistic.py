"""Statistic: one number per head, with everything a person needs to read it; and the means they are made of.

A statistic reads the measures of one layer (kernels/measures.py, without the batch axis) and gives float64 [H], NaN
where no row or target qualifies. Invisible cells, padded rows and padded keys are in no sum and in no count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from backend.types import LayerInfo

Measures = Mapping[str, Tensor]


@dataclass(frozen=True)
class Statistic:
    """What the number says, how it is computed, and between which values it lies.

    Its value under uniform attention over the visible keys is `compute` on the measures of uniform attention, see
    backend/baselines.py: a statistic says once how it is computed.
    """

    caption: str  # one sentence
    formula: str
    unit: str
    range: tuple[float, float]
    compute: Callable[[Measures, LayerInfo], np.ndarray]  # measures of a layer -> [H], NaN where undefined


def array(measures: Measures, name: str) -> np.ndarray:
    """One measure as numpy, float64 or int64."""
    values = measures[name].detach().cpu().numpy()
    return values.astype(np.int64 if values.dtype.kind in "iu" else np.float64)


def rows_with_choice(measures: Measures) -> np.ndarray:
    """Rows that see at least two keys, so that there was something to choose: bool [H, Nq]."""
    return array(measures, "visible_keys") >= 2


def mean_of_rows(values: np.ndarray, rows: np.ndarray | bool = True) -> np.ndarray:
    """Mean over the rows that count and have a value: [H, Nq] -> [H], NaN where there is none."""
    counted = rows & ~np.isnan(values)
    return ratio(np.where(counted, values, 0.0).sum(-1), counted.sum(-1))


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above / below as float64, NaN where below is 0."""
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=np.asarray(below) > 0)


def undefined(measures: Measures) -> np.ndarray:
    """[H] of NaN: the statistic has no meaning for this kind of attention."""
    return np.full(measures["visible_keys"].shape[0], np.nan)

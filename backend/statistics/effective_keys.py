"""Effective keys: the number of keys that would give the same entropy if they were looked at alike."""

from __future__ import annotations

import math

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, mean_of_rows
from backend.types import LayerInfo


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    return mean_of_rows(np.exp(array(measures, "entropy")))


STATISTIC = Statistic(
    caption="The number of keys a row looks at, counted as if it looked at each of them alike.",
    formula="mean over rows i of exp(H_i)",
    unit="keys",
    range=(1.0, math.inf),
    compute=compute,
)

"""The largest weight of a row."""

from __future__ import annotations

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, mean_of_rows, rows_with_choice
from backend.types import LayerInfo


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    return mean_of_rows(array(measures, "max_weight"), rows_with_choice(measures))


STATISTIC = Statistic(
    caption="The share of attention on the key that a row looks at most.",
    formula="mean over rows i with n_i >= 2 of max_j A_ij",
    unit="weight",
    range=(0.0, 1.0),
    compute=compute,
)

"""Importance of the first key: the usual measure of an attention sink."""

from __future__ import annotations

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, mean_of_rows
from backend.types import LayerInfo


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    # The received mean of the first real key, read per row, where left padding has already been allowed for.
    return mean_of_rows(array(measures, "first_mass"))


STATISTIC = Statistic(
    caption="The share of attention that the first token receives, over all rows that see it, its own row included.",
    formula="alpha_0 = mean over rows i that see key 0 of A_i0",
    unit="weight",
    range=(0.0, 1.0),
    compute=compute,
)

"""Mass on the previous token."""

from __future__ import annotations

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, mean_of_rows, undefined
from backend.types import LayerInfo


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    if info.kind == "cross":  # rows and keys are two different texts
        return undefined(measures)
    return mean_of_rows(array(measures, "previous_mass"))


STATISTIC = Statistic(
    caption="The share of attention on the token just before, over the rows that see it.",
    formula="mean over rows i whose previous token is visible of A[i, p_i - 1]",
    unit="weight",
    range=(0.0, 1.0),
    compute=compute,
)

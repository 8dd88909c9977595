"""Mass on the token itself."""

from __future__ import annotations

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, mean_of_rows, rows_with_choice, undefined
from backend.types import LayerInfo


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    if info.kind == "cross":  # rows and keys are two different texts
        return undefined(measures)
    return mean_of_rows(array(measures, "self_mass"), rows_with_choice(measures))


STATISTIC = Statistic(
    caption="The share of attention that tokens pay to themselves, over the rows that see at least one other key.",
    formula="mean over rows i with n_i >= 2 of A[i, p_i]",
    unit="weight",
    range=(0.0, 1.0),
    compute=compute,
)

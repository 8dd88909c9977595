"""Mass on the first key, the rows left out that could look nowhere else."""

from __future__ import annotations

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, mean_of_rows, rows_with_choice
from backend.types import LayerInfo


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    return mean_of_rows(array(measures, "first_mass"), rows_with_choice(measures))


STATISTIC = Statistic(
    caption="The share of attention on the first token, over the rows that see it and at least one other key.",
    formula="mean over rows i with n_i >= 2 that see key 0 of A_i0",
    unit="weight",
    range=(0.0, 1.0),
    compute=compute,
)

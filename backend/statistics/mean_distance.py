"""Mean distance between a token and what it looks at."""

from __future__ import annotations

import math

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, mean_of_rows, rows_with_choice, undefined
from backend.types import LayerInfo


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    if info.kind == "cross":  # rows and keys are two different texts
        return undefined(measures)
    return mean_of_rows(array(measures, "mean_distance"), rows_with_choice(measures))


STATISTIC = Statistic(
    caption="How far away the head looks, in tokens, weighted by its attention.",
    formula="mean over rows i with n_i >= 2 of sum_j A_ij |p_i - j|",
    unit="tokens",
    range=(0.0, math.inf),
    compute=compute,
)

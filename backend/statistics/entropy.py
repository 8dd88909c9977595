"""Entropy: how widely a head spreads its attention."""

from __future__ import annotations

import math

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, mean_of_rows
from backend.types import LayerInfo


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    return mean_of_rows(array(measures, "entropy"))


STATISTIC = Statistic(
    caption="How widely the head spreads its attention: 0 when every row looks at one key, ln n when it looks at all "
    "n visible keys alike.",
    formula="mean over rows i of H_i = -sum_j A_ij ln A_ij, a learned sink counted as one more outcome",
    unit="nats",
    range=(0.0, math.inf),
    compute=compute,
)

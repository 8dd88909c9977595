"""Share of the visible cells that carry next to nothing."""

from __future__ import annotations

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, ratio
from backend.types import LayerInfo


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    return ratio(array(measures, "negligible").sum(-1), array(measures, "visible_keys").sum(-1))


STATISTIC = Statistic(
    caption="The share of visible cells whose weight is under a hundredth of what uniform attention would give them.",
    formula="sum_i #{visible j: A_ij < 0.01 / n_i} / sum_i n_i",
    unit="share of cells",
    range=(0.0, 1.0),
    compute=compute,
)

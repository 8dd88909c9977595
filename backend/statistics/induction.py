"""Mass on the tokens that followed earlier copies of the same token."""

from __future__ import annotations

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, mean_of_rows, undefined
from backend.types import LayerInfo


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    if "induction_mass" not in measures:  # measured only where the token ids of the keys are known
        return undefined(measures)
    return mean_of_rows(array(measures, "induction_mass"))


STATISTIC = Statistic(
    caption="The share of attention on tokens that followed an earlier copy of the same token, over the rows that see "
    "one.",
    formula="mean over rows i with a visible 1 <= j <= p_i, token_(j-1) = token_i, of the sum of A_ij over those j",
    unit="weight",
    range=(0.0, 1.0),
    compute=compute,
)

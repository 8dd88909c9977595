"""Mass within 64 tokens of the row."""

from __future__ import annotations

import numpy as np

from backend.statistics.statistic import Measures, Statistic, array, ratio, rows_with_choice, undefined
from backend.types import LayerInfo

NEAR = 64  # distances 0 .. 63


def compute(measures: Measures, info: LayerInfo) -> np.ndarray:
    if info.kind == "cross":  # rows and keys are two different texts
        return undefined(measures)
    visible_keys = array(measures, "visible_keys")  # [H, Nq]
    by_distance = array(measures, "distance_sum")  # [H, Dist]
    n_query, n_key, length = visible_keys.shape[1], measures["received_sum"].shape[1], by_distance.shape[1]
    zero = 0 if length == n_key else n_key - 1  # where distance 0 stands: causal, or both signs
    near = by_distance[:, max(0, zero - NEAR + 1) : zero + NEAR].sum(-1)

    # The rows that see one key are in the sums by distance and are no rows here: what they gave is taken out again.
    row_position = np.arange(n_query) + (n_key - n_query)
    only_key_near = np.abs(row_position - array(measures, "max_key")) < NEAR
    without_choice = (visible_keys == 1) & only_key_near
    near -= np.where(without_choice, array(measures, "max_weight"), 0.0).sum(-1)
    return np.clip(ratio(near, rows_with_choice(measures).sum(-1)), 0.0, 1.0)


STATISTIC = Statistic(
    caption="The share of attention on keys fewer than 64 tokens away.",
    formula="mean over rows i with n_i >= 2 of the sum of A_ij over |p_i - j| < 64",
    unit="weight",
    range=(0.0, 1.0),
    compute=compute,
)

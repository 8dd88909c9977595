"""What the retained mass of a row tells (methods T-03).

With m = exp(lse_kept - lse), the share of a row's mass on the kept keys, and the kept weights divided by m:
KL(kept || full) = -ln m, total variation = 1 - m, and the output moves by at most (1 - m) times the diameter of the
values.
"""

from __future__ import annotations

import numpy as np

FLOOR = 1e-12  # a row that keeps nothing has no finite divergence; it is counted with this mass


def divergence(mass: np.ndarray) -> np.ndarray:
    """KL(kept || full) = -ln m in nats, elementwise."""
    return -np.log(np.clip(mass, FLOOR, 1.0))

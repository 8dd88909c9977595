"""The log-normal picture of a row (methods P-03): what follows if a row's scores were Gaussian, and by how much it
fails."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from backend.sparsity.concentration import entropy, keys_for
from backend.sparsity.rows import Rows

NORMAL = NormalDist()
FOR_95 = NORMAL.inv_cdf(0.95)
FEWEST_KEYS = 16  # rows with fewer have no spread to speak of


@dataclass(frozen=True)
class LogNormal:
    """Means over rows that see FEWEST_KEYS keys or more and give every one of them a weight above 0."""

    rows: int
    sigma: float  # standard deviation of the scores
    skewness: float  # 0 for a Gaussian
    excess_kurtosis: float  # 0 for a Gaussian
    entropy: float  # nats
    predicted_entropy: float  # ln n - sigma^2 / 2
    share_95: float  # of the visible keys that hold 95 %
    predicted_share_95: float

    @property
    def temperature(self) -> float:
        return 1 / self.sigma

    @property
    def entropy_misfit(self) -> float:
        """predicted - measured, nats."""
        return self.predicted_entropy - self.entropy


def share_of_keys(mass: float, sigma: float) -> float:
    """q(c): the share of a row's keys that holds the mass, were its scores Gaussian with that deviation."""
    return NORMAL.cdf(NORMAL.inv_cdf(mass) - sigma)


def fit(rows: Rows) -> LogNormal | None:
    """None where no row qualifies. A row's scores are ln A_ij up to a constant, which no number here depends on."""
    chosen = (rows.counts >= FEWEST_KEYS) & ((rows.weights > 0) == rows.visible).all(-1)
    if not chosen.any():
        return None
    kept = Rows(rows.weights[chosen], rows.visible[chosen], rows.position[chosen])
    n, seen = kept.counts, kept.visible
    score = np.log(kept.weights, out=np.zeros_like(kept.weights), where=seen)
    apart = np.where(seen, score - (score.sum(-1) / n)[:, None], 0.0)
    moment = [(apart**power).sum(-1) / n for power in (2, 3, 4)]
    sigma = np.sqrt(moment[0])
    some = sigma > 1e-6
    if not some.any():
        return None
    return LogNormal(
        rows=int(chosen.sum()),
        sigma=float(sigma.mean()),
        skewness=float((moment[1][some] / sigma[some] ** 3).mean()),
        excess_kurtosis=float((moment[2][some] / moment[0][some] ** 2 - 3).mean()),
        entropy=float(entropy(kept).mean()),
        predicted_entropy=float((np.log(n) - moment[0] / 2).mean()),
        share_95=float((keys_for(kept, 0.95) / n).mean()),
        predicted_share_95=float(np.mean([NORMAL.cdf(FOR_95 - one) for one in sigma])),
    )

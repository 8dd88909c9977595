"""The log-normal picture of a row (methods P-03): what follows if a row's scores were Gaussian, and by how much it
fails."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch

from backend.sparsity.concentration import entropy, keys_for
from backend.sparsity.rows import Rows

NORMAL = NormalDist()
FOR_95 = NORMAL.inv_cdf(0.95)
FEWEST_KEYS = 16  # rows with fewer have no spread to speak of
BINS = 48  # of the histogram


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
    found = scores_of(rows)
    if found is None:
        return None
    kept, apart = found
    n = kept.counts
    square = apart * apart
    moment = [values.sum(-1) / n for values in (square, square * apart, square * square)]
    sigma = np.sqrt(moment[0])
    some = sigma > 1e-6
    if not some.any():
        return None
    return LogNormal(
        rows=len(kept.position),
        sigma=float(sigma.mean()),
        skewness=float((moment[1][some] / sigma[some] ** 3).mean()),
        excess_kurtosis=float((moment[2][some] / moment[0][some] ** 2 - 3).mean()),
        entropy=float(entropy(kept).mean()),
        predicted_entropy=float((np.log(n) - moment[0] / 2).mean()),
        share_95=float((keys_for(kept, 0.95) / n).mean()),
        predicted_share_95=float(np.mean([NORMAL.cdf(FOR_95 - one) for one in sigma])),
    )


def scores_of(rows: Rows) -> tuple[Rows, np.ndarray] | None:
    """The rows that qualify and their scores less the row's mean, 0 where invisible; None where no row qualifies."""
    chosen = (rows.counts >= FEWEST_KEYS) & ((rows.weights > 0) == rows.visible).all(-1)
    if not chosen.any():
        return None
    kept = Rows(rows.weights[chosen], rows.visible[chosen], rows.position[chosen])
    score = np.log(kept.weights, out=np.zeros_like(kept.weights), where=kept.visible)
    return kept, np.where(kept.visible, score - (score.sum(-1) / kept.counts)[:, None], 0.0)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Where the scores of a head's rows lie around the mean of their row, every visible key alike, beside the normals
    that have the deviations of the rows."""

    edges: np.ndarray  # float64 [bins + 1], nats
    share: np.ndarray  # [bins], of the keys
    normal: np.ndarray  # [bins], what the normals give

    @property
    def misfit(self) -> float:
        """Share of the keys that lie elsewhere than the normals say: 0 to 1."""
        outside = max(0.0, 1 - float(self.normal.sum()))
        return (float(np.abs(self.share - self.normal).sum()) + outside) / 2


def histogram(rows: Rows, bins: int = BINS) -> Histogram | None:
    """None where no row qualifies, or all weights of each are the same."""
    found = scores_of(rows)
    if found is None:
        return None
    kept, apart = found
    n = kept.counts
    sigma = np.sqrt((apart**2).sum(-1) / n)
    some = sigma > 1e-6
    if not some.any():
        return None
    apart, seen, n, sigma = apart[some], kept.visible[some], n[some], sigma[some]
    values = apart[seen]
    counts, edges = np.histogram(values, bins)
    below = torch.special.ndtr(torch.from_numpy(edges[None] / sigma[:, None])).numpy()  # [R, bins + 1]
    normal = (np.diff(below, axis=-1) * n[:, None]).sum(0) / n.sum()
    return Histogram(edges, counts / len(values), normal)

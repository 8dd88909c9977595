"""Raw and value-weighted share of the sinks (F-03): a weight counts as much as the value it fetches.

What key j adds to head h's output at row i is A_ij W_O v_j, of length A_ij ||W_O v_j||. The share of a set of keys is
the sum of these lengths over rows and keys of the set, divided by the sum over rows and all keys. Both sums are made of
what each key receives, so they are exact for every head at every length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.sinks.budget import mass_with_choice
from backend.sinks.importance import Importance, places
from backend.store import Analysis


@dataclass(frozen=True, eq=False)
class Shares:
    """Of a set of keys, [L, H]; NaN where the rows or the output norms are missing."""

    raw: np.ndarray
    weighted: np.ndarray


def shares(analysis: Analysis, found: Importance, keys: np.ndarray, kind: str = "self") -> Shares:
    """keys: bool [L, H, N] or [N], the set whose share is taken. Rows that see a single key do not count."""
    mass, rows, _ = mass_with_choice(analysis, found, kind)
    norms = norms_of(analysis, found, kind, "output_norm")
    inside = np.where(keys, mass, 0.0)
    raw = np.divide(inside.sum(-1), rows, out=np.full(rows.shape, np.nan), where=rows > 0)
    lengths = mass * np.where(found.rows > 0, norms, 0.0)
    whole = lengths.sum(-1)
    weighted = np.divide(
        np.where(keys, lengths, 0.0).sum(-1), whole, out=np.full(rows.shape, np.nan), where=np.nan_to_num(whole) > 0
    )
    return Shares(raw, weighted)


def norms_of(analysis: Analysis, found: Importance, kind: str, column: str) -> np.ndarray:
    """A column of norms of the table `keys`, [L, H, N]; NaN where it was not stored."""
    table = analysis.keys(kind=kind)
    grid = np.full(found.rows.shape, np.nan)
    grid[places(table, list(found.layers), "key")] = table[column].to_numpy(zero_copy_only=False)
    return grid

"""Score: one more number per head, computed from the tables of a stored analysis when somebody asks for it.

A statistic (backend/statistics) is measured while the model runs and stored; a score is an aggregate over what was
stored, so that analyses of any age have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backend.sparsity.rows import Rows


@dataclass(frozen=True, eq=False)
class Seen:
    """What the rows of one layer may see: all that uniform attention depends on. Rows without a key are left out."""

    n: np.ndarray  # [rows] number of visible keys, float64
    first: np.ndarray  # [rows] whether the first key is among them
    delimiters: np.ndarray  # [rows] number of delimiters among them

    @property
    def choosing(self) -> np.ndarray:
        """Rows that see at least two keys."""
        return self.n >= 2


@dataclass(frozen=True)
class Score:
    """A definition. value is an aggregate in SQL over the facts of `table`, taken for each head.

    `rows` offers, of every row that sees a key: n (visible keys), outcomes (n, and one more where the head has a
    learned sink), entropy, max_weight, sum_square, mean_distance, first_mass, a (first_mass, 0 where undefined).
    `distances` offers d (|distance|), distance, mass, mean_weight, rows, choosing (rows with n >= 2), lone (the weight
    of rows with n = 1). `keys` offers key, received_sum, received_mean, visible_rows, is_delimiter, choosing, and
    lone_delimiter (the weight that rows with n = 1 had to give to a delimiter). Scores of `maps` have of_rows instead:
    one number for each of some rows (backend/sparsity/rows.py), averaged where defined.
    """

    caption: str  # one sentence
    formula: str
    unit: str
    range: tuple[float, float]
    value: str = ""
    table: str = "rows"
    of_rows: Callable[[Rows], np.ndarray] | None = None
    uniform: Callable[[Seen], np.ndarray] | None = None  # per row, averaged over those that are not NaN
    uniform_words: str = ""
    needs_run: bool = False  # the uniform value holds where each row sees an unbroken run of keys that ends at itself
    source: str = ""  # who defined it; "" = defined by Headwater

"""Which pattern a head has (methods P-04): the mass that each kind of pattern keeps, at every size.

A kind of pattern is a family that grows with one number (the width of a window, the number of diagonals ...). For each
head a family is a `Path`: pairs (query, key) kept and mass kept, both rising. Patterns are compared at equal numbers of
pairs among the visible ones. Columns, diagonals and blocks are chosen by the mass they really hold, so every number
here is the most that the family could keep at that size, not what an estimate made at run time would find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from backend.sparsity.rows import Rows
from backend.sparsity.sums import Sums

FIRST, FIRST_FROM = 4, 256  # keys at the start that an A-shape keeps from so many keys on; one in shorter texts
BUDGET = 0.10  # share of the visible pairs at which patterns are compared
WANTED = 0.95  # share of the mass whose price is asked
CLOSE = 0.01  # a simpler pattern that keeps at most this much less is preferred
DEARER = 1.25  # a window that needs more than so many times the pairs of the best diagonals is called diagonal
DENSE = 0.5  # a head that needs more than this share of the pairs for WANTED is called dense
SIMPLE_FIRST = ("local", "diagonal", "a_shape", "block", "vertical_slash")
WORDS = {
    "local": "local",
    "diagonal": "diagonal",
    "a_shape": "A-shape",
    "block": "block",
    "vertical_slash": "vertical-slash",
    "dense": "dense",
}


@dataclass(frozen=True, eq=False)
class Onward:
    """What a pattern keeps in rows behind the text that it was made on: windows and diagonals move on with the text,
    columns stay; of blocks those of the last block of rows stay, and all that follows the text."""

    first: int = 0
    window: int = 0
    distances: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    columns: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    behind: int | None = None  # of blocks: the first key behind the text

    def row(self, position: int) -> np.ndarray:
        """Keys that the row keeps, itself always among them: bool [position + 1]."""
        kept = np.zeros(position + 1, bool)
        kept[: self.first] = True
        kept[max(0, position + 1 - max(1, self.window)) :] = True
        kept[position - self.distances[(self.distances >= 0) & (self.distances <= position)]] = True
        kept[self.columns] = True
        if self.behind is not None:
            kept[self.behind :] = True
        return kept


@dataclass(frozen=True, eq=False)
class Path:
    """One family on one head, by growing size. pairs and mass are cumulative; mask(step) draws a size."""

    pairs: np.ndarray  # int64 [S]
    mass: np.ndarray  # float64 [S], share of all mass
    size: Callable[[int], dict[str, int]]
    mask: Callable[[int], np.ndarray]  # step -> bool [R, Nk]
    onward: Callable[[int], Onward]  # step -> what it keeps in rows behind these

    def step_within(self, most: int) -> int | None:
        """The best step with at most `most` pairs; None where even the smallest has more."""
        there = np.flatnonzero(self.pairs <= most)
        return None if not len(there) else int(there[np.argmax(self.mass[there])])

    def step_for(self, share: float) -> int | None:
        """The cheapest step that keeps this share of the mass."""
        there = np.flatnonzero(self.mass >= share - 1e-9)
        return None if not len(there) else int(there[np.argmin(self.pairs[there])])


def paths(rows: Rows) -> dict[str, Path]:
    """Every family on these rows."""
    sums = Sums.of(rows, FIRST if rows.weights.shape[1] >= FIRST_FROM else 1)
    return {
        "local": windows(sums, 0),
        "diagonal": vertical_slash(sums, 1),
        "a_shape": windows(sums, sums.first),
        "block": blocks(sums),
        "vertical_slash": vertical_slash(sums, len(sums.sizes)),
    }


def windows(sums: Sums, first: int) -> Path:
    """Keys fewer than w tokens away, and the first keys, for w = 0, 1, 2 ... first: 0, or that of the sums."""
    away = np.abs(np.arange(len(sums.count)) - sums.zero)
    found = []
    for values in (sums.count, sums.mass):
        start = values[:, :, 1].sum() if first else 0
        others = values[:, :, 0].sum(1) if first else values.sum((1, 2))
        found.append(start + np.concatenate([[0], np.cumsum(np.bincount(away, others))]))
    return Path(
        np.round(found[0]).astype(np.int64),
        found[1] / sums.total,
        lambda step: {"first": first, "window": step},
        lambda step: window_mask(sums, first, step),
        lambda step: Onward(first=first, window=step),
    )


def window_mask(sums: Sums, first: int, window: int) -> np.ndarray:
    near = np.abs(sums.distance - sums.zero) < window
    return (near | (np.arange(near.shape[1]) < first)[None]) & sums.rows.visible


def vertical_slash(sums: Sums, tried: int) -> Path:
    """The columns with most mass and, besides them, the diagonals with most of what is left.

    tried: how many of the sums' numbers of columns; 1 tries none (0 columns) and leaves diagonals alone.
    """
    count, mass = sums.count.sum(2), sums.mass.sum(2)
    pairs, kept, orders = [], [], []
    for at in range(tried):  # groups 0 .. at are the chosen columns
        rest, rest_count = mass[:, at + 1 :].sum(1), count[:, at + 1 :].sum(1)
        order = np.argsort(-rest, kind="stable")
        order = order[rest_count[order] > 0]
        pairs.append(count[:, : at + 1].sum() + np.concatenate([[0], np.cumsum(rest_count[order])]))
        kept.append(mass[:, : at + 1].sum() + np.concatenate([[0.0], np.cumsum(rest[order])]))
        orders.append(order)
    starts = np.cumsum([0, *map(len, pairs)])

    def parts(step: int) -> tuple[int, np.ndarray]:
        """Columns, and indices of the diagonals."""
        at = int(np.searchsorted(starts, step, side="right")) - 1
        return sums.sizes[at], orders[at][: step - starts[at]]

    def size(step: int) -> dict[str, int]:
        columns, diagonals = parts(step)
        return {"columns": columns, "diagonals": len(diagonals)}

    def mask(step: int) -> np.ndarray:
        columns, diagonals = parts(step)
        chosen = np.zeros(len(sums.count), bool)
        chosen[diagonals] = True
        return (chosen[sums.distance] | (sums.rank < columns)[None]) & sums.rows.visible

    def onward(step: int) -> Onward:
        columns, diagonals = parts(step)
        return Onward(distances=diagonals - sums.zero, columns=np.flatnonzero(sums.rank < columns))

    return Path(np.concatenate(pairs).astype(np.int64), np.concatenate(kept) / sums.total, size, mask, onward)


def blocks(sums: Sums) -> Path:
    """For every block of rows its k blocks of keys with most mass, for k = 0, 1, 2 ..."""
    side, n_key = sums.side, sums.rows.weights.shape[1]
    order = np.argsort(-sums.block_mass, axis=1, kind="stable")
    pairs, mass = (np.take_along_axis(values, order, 1).sum(0) for values in (sums.block_count, sums.block_mass))
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None].repeat(len(order), 0), 1)

    def mask(step: int) -> np.ndarray:
        chosen = (rank < step)[sums.row_block]
        return np.repeat(chosen, side, axis=1)[:, :n_key] & sums.rows.visible

    def onward(step: int) -> Onward:
        columns = np.flatnonzero(np.repeat(rank[-1] < step, side)[:n_key])
        return Onward(columns=columns, behind=n_key if step else None)

    return Path(
        np.concatenate([[0], np.cumsum(pairs)]).astype(np.int64),
        np.concatenate([[0.0], np.cumsum(mass)]) / sums.total,
        lambda step: {"blocks": step, "side": side},
        mask,
        onward,
    )


@dataclass(frozen=True)
class Fit:
    """One family on one head."""

    retained: float | None  # share of the mass within the budget; None where its smallest size is larger
    size: dict[str, int] | None  # its size within the budget
    price: float | None  # share of the visible pairs for WANTED of the mass
    price_size: dict[str, int] | None


@dataclass(frozen=True)
class Decision:
    """What pattern a head has."""

    name: str  # one of WORDS
    fits: dict[str, Fit]

    @property
    def best(self) -> float:
        """What the best family keeps within the budget."""
        return max((fit.retained for fit in self.fits.values() if fit.retained is not None), default=0.0)


def fit_all(rows: Rows, budget: float = BUDGET, wanted: float = WANTED) -> Decision:
    """Every family within the budget, and the simplest one that is about as good as the best."""
    known, found = paths(rows), {}
    visible = int(known["local"].pairs[-1])  # the widest window keeps every pair
    most = int(budget * visible + 1e-9)
    for name, path in known.items():
        within, enough = path.step_within(most), path.step_for(wanted)
        found[name] = Fit(
            None if within is None else float(path.mass[within]),
            None if within is None else path.size(within),
            None if enough is None else float(path.pairs[enough] / visible),
            None if enough is None else path.size(enough),
        )
    return Decision(decide(found), found)


def decide(fits: dict[str, Fit]) -> str:
    """The simplest family within CLOSE of the best; "dense" where the cheapest price of WANTED is above DENSE."""
    prices = [fit.price for fit in fits.values() if fit.price is not None]
    if not prices or min(prices) > DENSE:
        return "dense"
    kept = {name: fit.retained for name, fit in fits.items() if fit.retained is not None}
    best = max(kept.values(), default=0.0)
    name = next((name for name in SIMPLE_FIRST if name in kept and kept[name] >= best - CLOSE), "dense")
    local, diagonal = fits["local"].price, fits["diagonal"].price
    if name == "local" and local and diagonal and local > DEARER * diagonal:  # a window is some diagonals side by side
        return "diagonal"
    if name == "block" and "vertical_slash" in kept and kept["vertical_slash"] >= best - CLOSE:
        prices = {one: fits[one].price or np.inf for one in ("block", "vertical_slash")}
        return min(prices, key=prices.get)
    return name


def retained_rows(rows: Rows, mask: np.ndarray) -> np.ndarray:
    """m of every row: the share of its mass on the kept keys, [R]."""
    return (rows.weights * mask).sum(-1)

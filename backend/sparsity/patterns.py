"""Which pattern a head has (methods P-04): the mass that each kind of pattern keeps, at every size.

A kind of pattern is a family that grows with one number (the width of a window, the number of diagonals ...). For each
head a family is a `Path`: pairs (query, key) kept and mass kept, both rising. Patterns are compared at equal numbers of
pairs among the visible ones. Columns, diagonals and blocks are chosen by the mass they really hold, so every number
here is the most that the family could keep at that size, not what an estimate made at run time would find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backend.sparsity.rows import Rows

FIRST, FIRST_FROM = 4, 256  # keys at the start that an A-shape keeps from so many keys on; one in shorter texts
BUDGET = 0.10  # share of the visible pairs at which patterns are compared
WANTED = 0.95  # share of the mass whose price is asked
CLOSE = 0.01  # a simpler pattern that keeps at most this much less is preferred
DEARER = 1.25  # a window that needs more than so many times the pairs of the best diagonals is called diagonal
DENSE = 0.5  # a head that needs more than this share of the pairs for WANTED is called dense
COLUMNS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # numbers of columns that vertical-slash tries
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
class Path:
    """One family on one head, by growing size. pairs and mass are cumulative; mask(step) draws a size."""

    pairs: np.ndarray  # int64 [S]
    mass: np.ndarray  # float64 [S], share of all mass
    sizes: list[dict[str, int]] | Callable[[int], dict[str, int]]
    mask: Callable[[int], np.ndarray]  # step -> bool [R, Nk]

    def step_within(self, most: int) -> int | None:
        """The best step with at most `most` pairs; None where even the smallest has more."""
        there = np.flatnonzero(self.pairs <= most)
        return None if not len(there) else int(there[np.argmax(self.mass[there])])

    def step_for(self, share: float) -> int | None:
        """The cheapest step that keeps this share of the mass."""
        there = np.flatnonzero(self.mass >= share - 1e-9)
        return None if not len(there) else int(there[np.argmin(self.pairs[there])])

    def size(self, step: int) -> dict[str, int]:
        return self.sizes(step) if callable(self.sizes) else self.sizes[step]


@dataclass(frozen=True, eq=False)
class Sums:
    """What the families are made of: the map added up once by distance and by group of keys."""

    rows: Rows
    first: int  # keys at the start that an A-shape keeps
    distance: np.ndarray  # int64 [R, Nk], p_i - j, counted from the smallest one
    zero: int  # index of distance 0
    rank: np.ndarray  # int64 [Nk], place of a key by received mass, from 0
    sizes: list[int]  # numbers of columns that are tried; a key of group g is outside sizes[g - 1], inside sizes[g]
    count: np.ndarray  # [Dist, groups, 2] visible cells; the last axis: among the first keys or not
    mass: np.ndarray

    @classmethod
    def of(cls, rows: Rows, first: int) -> Sums:
        n_key = rows.weights.shape[1]
        distance = rows.position[:, None] - np.arange(n_key)[None]
        zero = int(max(0, -distance.min()))
        distance = distance + zero
        rank = np.empty(n_key, np.int64)
        rank[np.argsort(-rows.weights.sum(0), kind="stable")] = np.arange(n_key)
        sizes = sorted({min(size, n_key) for size in COLUMNS})
        width = 2 * (len(sizes) + 1)
        group = 2 * np.searchsorted(sizes, rank, side="right") + (np.arange(n_key) < first)
        index = (distance * width + group[None])[rows.visible]
        shape = (int(distance.max()) + 1, len(sizes) + 1, 2)
        count = np.bincount(index, minlength=np.prod(shape)).reshape(shape)
        mass = np.bincount(index, rows.weights[rows.visible], minlength=np.prod(shape)).reshape(shape)
        return cls(rows, first, distance, zero, rank, sizes, count, mass)

    @property
    def total(self) -> float:
        return float(len(self.rows.position))  # every row sums to 1


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
    )


def window_mask(sums: Sums, first: int, window: int) -> np.ndarray:
    near = np.abs(sums.distance - sums.zero) < window
    return (near | (np.arange(near.shape[1]) < first)[None]) & sums.rows.visible


def vertical_slash(sums: Sums, tried: int) -> Path:
    """The columns with most mass and, besides them, the diagonals with most of what is left.

    tried: how many of the sums' numbers of columns; 1 tries none (0 columns) and leaves diagonals alone.
    """
    count, mass = sums.count.sum(2), sums.mass.sum(2)
    pairs, kept, steps, orders = [], [], [], []
    for at, size in enumerate(sums.sizes[:tried]):  # groups 0 .. at are the chosen columns
        rest, rest_count = mass[:, at + 1 :].sum(1), count[:, at + 1 :].sum(1)
        order = np.argsort(-rest, kind="stable")
        order = order[rest_count[order] > 0]
        pairs.append(count[:, : at + 1].sum() + np.concatenate([[0], np.cumsum(rest_count[order])]))
        kept.append(mass[:, : at + 1].sum() + np.concatenate([[0.0], np.cumsum(rest[order])]))
        steps += [(at, size, number) for number in range(len(order) + 1)]
        orders.append(order)

    def mask(step: int) -> np.ndarray:
        at, size, number = steps[step]
        chosen = np.zeros(len(sums.count), bool)
        chosen[orders[at][:number]] = True
        return (chosen[sums.distance] | (sums.rank < size)[None]) & sums.rows.visible

    return Path(
        np.concatenate(pairs).astype(np.int64),
        np.concatenate(kept) / sums.total,
        lambda step: {"columns": steps[step][1], "diagonals": steps[step][2]},
        mask,
    )


def block_side(n_key: int) -> int:
    """64 from 1,024 keys on, as in the kernels; for shorter texts a sixteenth of the keys, a power of two."""
    return 64 if n_key >= 1024 else max(1, 2 ** int(np.log2(max(1, n_key // 16))))


def block_sums(sums: Sums, side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row block of each row [R], and pairs and mass [row blocks, key blocks]."""
    n_key = sums.rows.weights.shape[1]
    row_block = sums.rows.position // side
    row_block = row_block - row_block.min()
    starts = np.flatnonzero(np.diff(row_block, prepend=-1))
    edges = np.arange(0, n_key, side)
    pairs = np.add.reduceat(np.add.reduceat(sums.rows.visible.astype(np.int64), edges, 1), starts, 0)
    mass = np.add.reduceat(np.add.reduceat(sums.rows.weights, edges, 1), starts, 0)
    return np.repeat(np.arange(len(starts)), np.diff([*starts, len(row_block)])), pairs, mass


def blocks(sums: Sums, side: int | None = None) -> Path:
    """For every block of rows its k blocks of keys with most mass, for k = 0, 1, 2 ..."""
    side = side or block_side(sums.rows.weights.shape[1])
    row_block, pairs, mass = block_sums(sums, side)
    order = np.argsort(-mass, axis=1, kind="stable")
    sorted_pairs, sorted_mass = (np.take_along_axis(values, order, 1).sum(0) for values in (pairs, mass))
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None].repeat(len(order), 0), 1)

    def mask(step: int) -> np.ndarray:
        chosen = (rank < step)[row_block]
        return np.repeat(chosen, side, axis=1)[:, : sums.rows.weights.shape[1]] & sums.rows.visible

    return Path(
        np.concatenate([[0], np.cumsum(sorted_pairs)]).astype(np.int64),
        np.concatenate([[0.0], np.cumsum(sorted_mass)]) / sums.total,
        lambda step: {"blocks": step, "side": side},
        mask,
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
    visible = int(rows.visible.sum())
    most = int(budget * visible + 1e-9)
    found = {}
    for name, path in paths(rows).items():
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

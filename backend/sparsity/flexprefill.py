"""FlexPrefill's decision for one head (methods P-05): does an estimate from block means see what the last rows see?

The last block of rows is looked at exactly. If the attention that pooled queries and keys predict for it is close to
its real one, blocks are chosen by that prediction; else columns and diagonals are, by what the last rows show. Blocks
of which no key can be seen (the future, or outside a window or chunk) are predicted to get nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.sparsity.rows import Rows
from backend.sparsity.sums import block_side

SIDE = 128  # rows and keys of a block; shorter texts take shorter ones
TAU, GAMMA = 0.1, 0.9


@dataclass(frozen=True)
class Choice:
    """What FlexPrefill would do with the head."""

    distance: float  # D, 0 to sqrt(ln 2)
    kind: str  # "block" below TAU, else "vertical_slash"
    density: float  # kept pairs over visible pairs (the paper's code divides by all blocks, the future included)
    retained: float  # share of the attention on them, mean over rows
    side: int


def decide(
    rows: Rows, query: np.ndarray, key: np.ndarray, scale: float, *, tau: float = TAU, gamma: float = GAMMA
) -> Choice:
    """rows: the measured rows of the map, the last row included. query [Nq, D] of the same rows, key [Nk, D]."""
    n_key = len(key)
    side = SIDE if n_key >= 8 * SIDE else block_side(n_key)
    edges = np.arange(0, n_key, side)
    sizes = np.diff([*edges, n_key])
    pooled_key = np.add.reduceat(key, edges, 0) / sizes[:, None]
    last = slice(max(0, len(rows.position) - side), len(rows.position))
    seen = np.logical_or.reduceat(rows.visible[last].any(0), edges)
    predicted = softmax(np.where(seen, scale * (query[last].mean(0) @ pooled_key.T), -np.inf))
    real = np.add.reduceat(rows.weights[last].mean(0), edges)
    distance = float(np.sqrt(divergence_between(predicted, real)))
    if distance < tau:
        mask = block_mask(rows, query, pooled_key, scale, side, gamma)
    else:
        mask = stripes(rows, last, gamma)
    kept = always(rows, side) | mask
    kept &= rows.visible
    return Choice(
        distance=distance,
        kind="block" if distance < tau else "vertical_slash",
        density=float(kept.sum() / rows.visible.sum()),
        retained=float((rows.weights * kept).sum(-1).mean()),
        side=side,
    )


def softmax(scores: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def divergence_between(p: np.ndarray, q: np.ndarray) -> float:
    """Jensen-Shannon divergence in nats: 0 for equals, ln 2 for distributions without a common place."""
    middle = (p + q) / 2
    parts = [np.where(one > 0, one * np.log(np.where(one > 0, one, 1) / np.where(middle > 0, middle, 1)), 0)
             for one in (p, q)]  # fmt: skip
    return max(0.0, float((parts[0].sum() + parts[1].sum()) / 2))


def smallest_set(values: np.ndarray, share: float) -> np.ndarray:
    """Indices of the fewest values that hold the share of their sum, largest first."""
    order = np.argsort(-values, kind="stable")
    held = np.cumsum(values[order])
    return order[: int(np.searchsorted(held, share * held[-1] - 1e-12)) + 1]


def stripes(rows: Rows, last: slice, gamma: float) -> np.ndarray:
    """Columns and diagonals that hold gamma of what the last rows show."""
    n_key = rows.weights.shape[1]
    columns = np.zeros(n_key, bool)
    columns[smallest_set(rows.weights[last].sum(0), gamma)] = True
    distance = rows.position[:, None] - np.arange(n_key)[None]
    seen = rows.visible[last]
    low = int(distance.min())
    sums = np.bincount((distance[last] - low)[seen], rows.weights[last][seen], minlength=int(distance.max()) - low + 1)
    diagonals = np.zeros(len(sums), bool)
    diagonals[smallest_set(sums, gamma)] = True
    return columns[None] | diagonals[distance - low]


def block_mask(
    rows: Rows, query: np.ndarray, pooled_key: np.ndarray, scale: float, side: int, gamma: float
) -> np.ndarray:
    """The fewest (row block, key block) pairs that hold gamma of the pooled prediction; unseen blocks hold nothing."""
    blocks, number = np.unique(rows.position // side, return_inverse=True)
    count = np.bincount(number)
    pooled = np.stack([np.bincount(number, column, len(count)) for column in query.T], -1) / count[:, None]
    edges = np.arange(0, rows.weights.shape[1], side)
    seen = np.zeros((len(blocks), len(edges)), bool)
    np.logical_or.at(seen, number, np.logical_or.reduceat(rows.visible, edges, 1))
    predicted = softmax(np.where(seen, scale * (pooled @ pooled_key.T), -np.inf))
    chosen = np.zeros(predicted.size, bool)
    chosen[smallest_set(predicted.reshape(-1), gamma)] = True
    chosen = chosen.reshape(predicted.shape)[number]
    return np.repeat(chosen, side, 1)[:, : rows.weights.shape[1]]


def always(rows: Rows, side: int) -> np.ndarray:
    """The first block of keys, and every row's own block."""
    key_block = np.arange(rows.weights.shape[1]) // side
    return (key_block == 0)[None] | (key_block[None] == (rows.position // side)[:, None])

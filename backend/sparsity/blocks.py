"""Choosing blocks of keys without looking at them all (methods P-07, L-06): MoBA's gate and Quest's bound.

Per row, the k best blocks by an estimate against the k that really hold most. The row's own block is always kept,
blocks of the future never.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.sparsity.patterns import paths
from backend.sparsity.rows import Rows

SIDES = (16, 32, 64, 128)
BUDGETS = (0.05, 0.1, 0.2)
ENOUGH = 0.9  # a head that keeps less at the largest budget is warned about
PAGE = 16  # Quest's own
DEARER = 1.1  # a choice that really keeps more than so many times the budget is not recommended


def block_means(key: np.ndarray, side: int) -> np.ndarray:
    """[blocks, D]"""
    edges = np.arange(0, len(key), side)
    return np.add.reduceat(key, edges, 0) / np.diff([*edges, len(key)])[:, None]


def moba_gate(query: np.ndarray, key: np.ndarray, side: int) -> np.ndarray:
    """q . mean of the block's keys: [R, blocks]."""
    return query @ block_means(key, side).T


def quest_bound(query: np.ndarray, key: np.ndarray, side: int = PAGE) -> np.ndarray:
    """sum_c max(q_c min_c, q_c max_c) over the block's keys: no q.k in the block is larger. [R, blocks]"""
    edges = np.arange(0, len(key), side)
    low, high = np.minimum.reduceat(key, edges, 0), np.maximum.reduceat(key, edges, 0)
    return np.maximum(query, 0) @ high.T + np.minimum(query, 0) @ low.T


@dataclass(frozen=True)
class Routed:
    """One estimate at one size and budget, means over rows."""

    estimate: str
    side: int
    budget: float
    density: float  # kept pairs over visible pairs
    recall: float  # share of the best blocks that were chosen
    retained: float
    best: float  # retained by as many of the best blocks


def route(rows: Rows, estimate: str, scores: np.ndarray, side: int, budget: float) -> Routed:
    """scores [R, blocks]: larger = read first. k = the budget's share of the row's visible blocks, at least one."""
    edges = np.arange(0, rows.weights.shape[1], side)
    mass = np.add.reduceat(rows.weights, edges, 1)
    pairs = np.add.reduceat(rows.visible.astype(np.int64), edges, 1)
    count = np.maximum(1, np.floor(budget * (pairs > 0).sum(-1) + 1e-9)).astype(np.int64)
    own = np.arange(mass.shape[1])[None] == (rows.position // side)[:, None]
    chosen, best = (
        first_of(np.where(pairs > 0, np.where(own, np.inf, values), -np.inf), count) for values in (scores, mass)
    )
    return Routed(
        estimate,
        side,
        budget,
        density=float((pairs * chosen).sum() / pairs.sum()),
        recall=float(((chosen & best).sum(-1) / best.sum(-1)).mean()),
        retained=float((mass * chosen).sum(-1).mean()),
        best=float((mass * best).sum(-1).mean()),
    )


def first_of(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The `count` largest of every row that are not -inf, the earlier of equals: bool [R, blocks]."""
    order = np.argsort(-values, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None].repeat(len(order), 0), 1)
    return (rank < count[:, None]) & (values > -np.inf)


def tightness(query: np.ndarray, key: np.ndarray, rows: Rows, side: int = PAGE) -> float:
    """How far Quest's bound lies above the largest q.k of its block, mean over blocks that a row sees whole."""
    edges = np.arange(0, len(key), side)
    true = np.maximum.reduceat(query @ key.T, edges, 1)
    whole = np.minimum.reduceat(rows.visible, edges, 1)
    apart = (quest_bound(query, key, side) - true)[whole]
    return float(apart.mean()) if apart.size else float("nan")


@dataclass(frozen=True)
class Advice:
    """What to choose for a head, from blocks of every size and the patterns, at every budget."""

    table: list[dict]
    recommended: str
    retained: float  # at the largest budget
    speed_up: float  # at most: one over the density
    warning: str | None


def advise(rows: Rows, query: np.ndarray, key: np.ndarray) -> Advice:
    """Every size and budget: oracle blocks, both estimates, A-shape and vertical-slash."""
    table, sides = [], [side for side in SIDES if side < len(key)] or [1]
    visible = int(rows.visible.sum())
    families = paths(rows)
    for budget in BUDGETS:
        for side in sides:
            for name, scores in (("moba", moba_gate(query, key, side)), ("quest", quest_bound(query, key, side))):
                found = route(rows, name, scores, side, budget)
                table.append({"choice": name, "side": side, "budget": budget, "density": found.density,
                              "retained": found.retained, "recall": found.recall})  # fmt: skip
            table.append({"choice": "best blocks", "side": side, "budget": budget, "density": found.density,
                          "retained": found.best, "recall": 1.0})  # fmt: skip
        for name in ("a_shape", "vertical_slash"):
            step = families[name].step_within(int(budget * visible + 1e-9))
            if step is not None:
                table.append({"choice": name, "side": None, "budget": budget,
                              "density": float(families[name].pairs[step] / visible),
                              "retained": float(families[name].mass[step]), "recall": None})  # fmt: skip
    largest = [row for row in table if row["budget"] == max(BUDGETS) and row["choice"] != "best blocks"]
    fair = [row for row in largest if row["density"] <= DEARER * max(BUDGETS)]  # one block may be over the budget alone
    best = max(fair or largest, key=lambda row: row["retained"])
    warning = None
    if best["retained"] < ENOUGH:
        warning = f"At {100 * max(BUDGETS):.0f} % no choice keeps {100 * ENOUGH:.0f} % of this head's attention: "
        warning += "leave it dense."
    name = best["choice"] if best["side"] is None else f"{best['choice']}, blocks of {best['side']}"
    return Advice(table, name, best["retained"], 1 / max(best["density"], 1e-9), warning)

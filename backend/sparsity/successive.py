"""How little attention changes from one step to the next (methods P-11, L-07): rows that follow each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.sparsity.key_rank import strongest_of
from backend.sparsity.rows import Rows

STRONGEST = 0.1  # of the visible keys are compared


@dataclass(frozen=True, eq=False)
class Steps:
    """Row t beside row t - 1, for the rows that have one before them. [T]"""

    position: np.ndarray
    same_place: np.ndarray  # cosine of the rows, key by key
    same_distance: np.ndarray  # cosine of row t and row t - 1 moved on by one key
    overlap: np.ndarray  # strongest keys that both have, over those of either
    recovered: np.ndarray  # mass of row t on the strongest keys of row t - 1 and itself


def steps(rows: Rows, strongest: float = STRONGEST) -> Steps:
    """At least one key counts as strongest."""
    here, before = rows.weights[1:], rows.weights[:-1]
    follows = rows.position[1:] == rows.position[:-1] + 1
    count = np.maximum(1, np.floor(strongest * rows.counts + 1e-9).astype(int))
    top = strongest_of(rows.weights, rows.visible, count)
    moved = np.concatenate([np.zeros((len(before), 1)), before[:, :-1]], 1)
    either = (top[1:] | top[:-1]).sum(-1)
    own = np.arange(rows.weights.shape[1])[None] == rows.position[1:, None]
    values = (
        rows.position[1:],
        cosine(here, before),
        cosine(here, moved),
        (top[1:] & top[:-1]).sum(-1) / np.maximum(either, 1),
        (here * (top[:-1] | own)).sum(-1),
    )
    return Steps(*(value[follows] for value in values))


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of rows; 0 where one of them is empty."""
    size = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return np.divide((one * other).sum(-1), size, out=np.zeros(len(one)), where=size > 0)

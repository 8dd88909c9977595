"""How alike heads are: Jensen-Shannon divergence on sampled rows, a map in two dimensions, groups of like heads.

All heads are compared on the same few rows. Long rows are shortened first: the first keys and those around the row stay
single, the others are gathered in blocks. A divergence of shortened rows is never larger than that of the whole rows,
and is the same where two heads differ only among the keys that stayed single.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backend.errors import Refused
from backend.map_sizes import map_sizes
from backend.store import Analysis
from backend.types import LayerInfo

MOST_ROWS = 16  # sampled
FIRST, NEAR, BLOCKS = 32, 128, 96  # keys that stay single at the start and around the row, and blocks for the others
WORK = 250_000_000  # logarithms: fewer rows where there are more heads
MOST_HEADS = 2048
SMALL_MAP = 300_000  # cells that are computed in one piece
Progress = Callable[[float], None]  # share done


@dataclass(frozen=True, eq=False)
class Similarity:
    """Heads against heads."""

    heads: tuple[tuple[int, int], ...]  # (layer, head) with an exact map of the commonest size
    divergence: np.ndarray  # [heads, heads] mean Jensen-Shannon divergence in nats, 0 to ln 2
    places: np.ndarray  # [heads, 2] from the square root of the divergence by classical scaling
    shown: float  # the share of the squared distances that two dimensions hold, 0 to 1
    rows: tuple[int, ...]  # that were sampled
    bins: int  # keys and blocks of keys of the longest row
    merged: bool  # whether keys were gathered in blocks
    missing: int  # heads without an exact map, or whose maps have another size

    def like(self, layer: int, head: int, most: int = 8) -> list[tuple[int, int, float]]:
        """(layer, head, divergence) of the heads most like one; [] where it has no exact map."""
        if (layer, head) not in self.heads:
            return []
        own = self.divergence[self.heads.index((layer, head))]
        nearest = [at for at in np.argsort(own, kind="stable") if self.heads[at] != (layer, head)]
        return [(*self.heads[at], float(own[at])) for at in nearest[:most]]


def compare_heads(analysis: Analysis, kind: str, progress: Progress = lambda share: None) -> Similarity:
    """Compares all heads of a kind whose exact maps can be computed. Refused where there are fewer than two of them."""
    infos, others = layers_of_one_size(analysis, kind)
    exact = {info.layer: analysis.exact_heads(info.layer, kind) for info in infos}
    heads = tuple((info.layer, head) for info in infos for head in exact[info.layer])
    if len(heads) < 2:
        raise Refused("Fewer than two heads have exact maps here. Run the analysis again with exact maps of all heads.")
    if len(heads) > MOST_HEADS:
        raise Refused(f"{len(heads):,} heads are more than the {MOST_HEADS:,} that are compared at once.")
    rows = sampled_rows(analysis, kind, len(heads))
    n_keys = map_sizes(analysis)[kind][infos[0].layer].keys
    causal = all(analysis.score(info.layer, kind).causal for info in infos)
    bins = [blocks_of(row, n_keys, causal) for row in rows]
    width = 1 + max(int(one.max()) for one in bins)
    shares = np.zeros((len(heads), len(rows), width + 1), np.float32)  # the last: what a learned sink takes
    for at, (layer, head) in enumerate(heads):
        for place, weights in enumerate(rows_of(analysis, kind, layer, head, rows, n_keys)):
            short = np.bincount(bins[place], weights=np.nan_to_num(weights), minlength=width)
            shares[at, place, :width] = short
            shares[at, place, width] = max(0.0, 1.0 - short.sum())
        progress(0.6 * (at + 1) / len(heads))
    shares /= shares.sum(-1, keepdims=True)
    divergence = divergences(shares, lambda share: progress(0.6 + 0.4 * share))
    places, shown = classical_scaling(np.sqrt(divergence))
    missing = others + sum(info.heads for info in infos) - len(heads)
    return Similarity(heads, divergence, places, shown, tuple(rows), width, width < n_keys, missing)


def layers_of_one_size(analysis: Analysis, kind: str) -> tuple[list[LayerInfo], int]:
    """The layers whose maps have the commonest size, and how many heads the other layers have."""
    sizes = {layer: (size.queries, size.keys) for layer, size in map_sizes(analysis)[kind].items()}
    common = Counter(sizes.values()).most_common(1)[0][0]
    infos = analysis.layers(kind)
    kept = [info for info in infos if sizes[info.layer] == common]
    return kept, sum(info.heads for info in infos) - sum(info.heads for info in kept)


def sampled_rows(analysis: Analysis, kind: str, n_heads: int) -> list[int]:
    """Rows that see at least two keys in every layer, evenly spread, the last always among them."""
    answer = analysis.sql(
        "SELECT query FROM rows WHERE kind = ? GROUP BY query HAVING min(visible_keys) >= 2 ORDER BY query", (kind,)
    )
    candidates = answer["query"].to_pylist()
    if not candidates:
        raise Refused("No row of this prompt sees two keys, so heads cannot differ.")
    pairs = n_heads * (n_heads - 1) // 2
    affordable = WORK // (pairs * (FIRST + NEAR + BLOCKS))
    count = min(len(candidates), max(4, min(MOST_ROWS, affordable)))
    places = np.linspace(len(candidates) - 1, 0, count, endpoint=count == len(candidates)).round().astype(int)
    return sorted({candidates[place] for place in places})


def rows_of(analysis: Analysis, kind: str, layer: int, head: int, rows: list[int], n_keys: int) -> list[np.ndarray]:
    """The weights of some rows of one head: a small map in one piece, a large one row by row."""
    first, last = rows[0], rows[-1] + 1
    if (last - first) * n_keys <= SMALL_MAP:
        whole = analysis.map(layer, head, slice(first, last), None, kind=kind)
        return [whole[row - first] for row in rows]
    return [analysis.map(layer, head, slice(row, row + 1), None, kind=kind)[0] for row in rows]


def blocks_of(row: int, n_keys: int, causal: bool) -> np.ndarray:
    """[n_keys] the bin of every key of one row. Short texts keep every key."""
    if n_keys <= FIRST + NEAR + BLOCKS:
        return np.arange(n_keys)
    near = (row - NEAR + 1, row + 1) if causal else (row - NEAR // 2, row + NEAR // 2)
    keys = np.arange(n_keys)
    single = (keys < FIRST) | ((keys >= near[0]) & (keys < near[1]))
    order = np.cumsum(~single) - 1  # place among the keys that are gathered
    others = int((~single).sum())
    found = np.where(single, np.cumsum(single) - 1, 0)
    found[~single] = int(single.sum()) + order[~single] * BLOCKS // max(others, 1)
    return found


def divergences(shares: np.ndarray, progress: Progress = lambda share: None) -> np.ndarray:
    """[n, n] mean over rows of the Jensen-Shannon divergence, in nats. shares: [n, rows, bins], adding up to 1."""
    n = len(shares)
    own = entropies(shares)  # [n, rows]
    found = np.zeros((n, n))
    for at in range(n - 1):
        between = entropies((shares[at] + shares[at + 1 :]) / 2)
        found[at, at + 1 :] = (between - (own[at] + own[at + 1 :]) / 2).mean(-1)
        if at % 16 == 0:
            progress(1 - (1 - at / n) ** 2)
    return np.clip(found + found.T, 0.0, math.log(2))


def entropies(shares: np.ndarray) -> np.ndarray:
    """Entropy over the last axis, in nats; 0 ln 0 = 0."""
    logarithms = np.log(np.maximum(shares, np.float32(1e-30)))
    return -np.einsum("...k,...k->...", shares, logarithms, dtype=np.float64, casting="same_kind")


def classical_scaling(distance: np.ndarray) -> tuple[np.ndarray, float]:
    """[n, 2] places whose distances come closest (classical multidimensional scaling), and the share they hold."""
    n = len(distance)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ distance**2 @ centre)
    largest = np.argsort(values)[::-1][:2]
    kept = np.maximum(values[largest], 0.0)
    axes = vectors[:, largest]
    signs = np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])  # the same picture on every machine
    places = np.zeros((n, 2))
    places[:, : len(largest)] = axes * signs * np.sqrt(kept)
    positive = np.maximum(values, 0.0).sum()
    return places, float(kept.sum() / positive) if positive > 0 else 1.0


def clusters(distance: np.ndarray, count: int) -> np.ndarray:
    """[n] the group of every member, 0 the largest: average linkage, joined until `count` groups are left."""
    n = len(distance)
    between = distance.astype(np.float64).copy()
    np.fill_diagonal(between, np.inf)
    size = np.ones(n)
    member = np.arange(n)
    for _ in range(n - max(1, min(count, n))):
        first, second = sorted(divmod(int(between.argmin()), n))
        joined = (size[first] * between[first] + size[second] * between[second]) / (size[first] + size[second])
        between[first], between[:, first] = joined, joined
        between[first, first] = np.inf
        between[second], between[:, second] = np.inf, np.inf
        size[first] += size[second]
        member[member == second] = first
    names, counts = np.unique(member, return_counts=True)
    order = {name: at for at, name in enumerate(names[np.argsort(-counts, kind="stable")])}
    return np.array([order[name] for name in member])

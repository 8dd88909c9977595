"""Scores of whole rows (backend/head_scores/from_maps.py), measured on some rows of every head with an exact map."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from backend import head_scores
from backend.map_sizes import map_sizes
from backend.sparsity.rows import Rows, read_rows
from backend.store import Analysis

SMALL_MAP = 300_000  # cells that are computed in one piece
MOST_ROWS, FEW_ROWS = 64, 16  # of a small map, and of a larger one
Progress = Callable[[float], None]  # share done


def sampled_scores(
    analysis: Analysis, kind: str, progress: Progress = lambda share: None
) -> dict[str, dict[tuple[int, int], float]]:
    """name -> (layer, head) -> its mean over sampled rows that see two keys or more; heads without one are left out."""
    scores = {name: score.of_rows for name, score in head_scores.all().items() if score.of_rows is not None}
    found: dict[str, dict[tuple[int, int], float]] = {name: {} for name in scores}
    infos = analysis.layers(kind)
    for at, info in enumerate(infos):
        size = map_sizes(analysis)[kind][info.layer]
        for head in analysis.exact_heads(info.layer, kind):
            several = some_rows(analysis, kind, info.layer, head, size.queries, size.keys)
            for name, of_rows in scores.items():
                values = [of_rows(rows) for rows in several]
                values = np.concatenate([one[np.isfinite(one)] for one in values])
                if len(values):
                    found[name][info.layer, head] = float(values.mean())
        progress((at + 1) / len(infos))
    return found


def some_rows(analysis: Analysis, kind: str, layer: int, head: int, n_query: int, n_key: int) -> list[Rows]:
    """Evenly spread rows of a head, the last always among them: a small map in one piece, a large one row by row."""
    small = n_query * n_key <= SMALL_MAP
    count = min(MOST_ROWS if small else FEW_ROWS, n_query)
    places = np.unique(np.linspace(n_query - 1, 0, count).round().astype(int))
    if not small:
        return [read_rows(analysis, kind, layer, head, slice(int(row), int(row) + 1)) for row in places]
    whole = read_rows(analysis, kind, layer, head, slice(0, n_query))
    inside = np.isin(whole.numbers(map_sizes(analysis)[kind][layer], analysis.score(layer, kind).causal), places)
    return [Rows(whole.weights[inside], whole.visible[inside], whole.position[inside])]

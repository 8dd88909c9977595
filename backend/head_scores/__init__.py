"""More numbers per head than were stored: aggregates over the tables of an analysis, with their definitions.

To add one, write it into one of the registries: a caption, a formula and one aggregate in SQL.
"""

from __future__ import annotations

from backend.head_scores import from_distances, from_keys, from_maps, from_rows
from backend.head_scores.score import Score, Seen

__all__ = ["Score", "Seen", "all"]


def all() -> dict[str, Score]:
    """Every score by name."""
    return {**from_rows.SCORES, **from_maps.SCORES, **from_distances.SCORES, **from_keys.SCORES}

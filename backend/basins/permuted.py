"""What the shifts of a permutation study say together: profiles, their bands, content apart from position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backend.basins.profile import additive, band, shape

LOOKS = ("question", "question_all", "last", "last_all")
Row = dict[str, int | float | str | None]


def combined(masses: Sequence[Row], shifts: Sequence[Row]) -> dict[str, list[Row]]:
    """The tables profile, contents, model and heads of the rows of the tables masses and shifts."""
    count = 1 + max(row["shift"] for row in shifts)
    places = 1 + max(row["slot"] for row in shifts)
    parts = cube(shifts, "part", count, places).astype(int)
    heads = list(dict.fromkeys((row["layer"], row["head"]) for row in masses))
    found: dict[str, list[Row]] = {"profile": [], "contents": [], "model": [], "heads": []}
    for view in LOOKS:
        whole = cube(shifts, view, count, places)
        even = cube(shifts, f"{view}_uniform", count, places)
        fit, (low, high) = additive(whole, parts), band(whole)
        mean = mean_of(whole)
        found["profile"] += [
            {
                "view": view,
                "slot": slot,
                **{
                    name: defined(values[slot])
                    for name, values in (
                        *(("mean", mean), ("low", low), ("high", high)),
                        *(("uniform", mean_of(even)), ("position", fit.position)),
                    )
                },
            }
            for slot in range(places)
        ]
        found["contents"] += [
            {"view": view, "part": part, "content": defined(fit.content[part])} for part in range(places)
        ]
        found["model"].append({"view": view, **explained(fit)})
        by_head = np.array([np.nan if row[view] is None else row[view] for row in masses], float)
        by_head = by_head.reshape(count, len(heads), places)
        found["heads"] += [head_row(view, place, by_head[:, at], parts) for at, place in enumerate(heads)]
    return found


def head_row(view: str, place: tuple[int, int], values: np.ndarray, parts: np.ndarray) -> Row:
    """One head: values, parts [shifts, slots]."""
    found = shape(mean_of(values))
    shapes = {name: getattr(found, name) for name in ("depth", "primacy", "recency", "curvature")}
    return {"view": view, "layer": place[0], "head": place[1], **shapes, **explained(additive(values, parts))}


def explained(fit) -> Row:
    return {name: getattr(fit, name) for name in ("r2", "r2_content", "r2_position")}


def cube(rows: Sequence[Row], name: str, count: int, places: int) -> np.ndarray:
    """[shifts, slots] of one column; NaN where it is null."""
    found = np.full((count, places), np.nan)
    for row in rows:
        found[row["shift"], row["slot"]] = np.nan if row[name] is None else row[name]
    return found


def mean_of(values: np.ndarray) -> np.ndarray:
    """Mean over shifts [slots]; a place out of reach in some shift has none."""
    return values.mean(0)


def defined(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

"""The numbers of every head in one table: how concentrated it is and which pattern it has."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from backend.sparsity.concentration import ABSOLUTE, THRESHOLDS, concentration
from backend.sparsity.local import local_mass
from backend.sparsity.lognormal import fit
from backend.sparsity.patterns import BUDGET, SIMPLE_FIRST, WANTED, Decision, fit_all
from backend.sparsity.rows import read_head
from backend.store import Analysis
from kernels.measures import SHARES

NUMBERS = (
    *(f"keys_{round(100 * share)}" for share in SHARES),
    *(f"share_{round(100 * share)}" for share in SHARES),
    *("normalised_entropy", "participation", "gini", "hoyer"),
    *(f"under_{eps:g}_uniform" for eps in THRESHOLDS),
    *(f"under_{fixed:g}" for fixed in ABSOLUTE),
)
SIZES = ("first", "window", "columns", "diagonals", "blocks", "side")


def layer_rows(analysis: Analysis, kind: str, layer: int, budget: float = BUDGET, wanted: float = WANTED) -> list[dict]:
    """One record per head whose exact map was kept."""
    return [head_row(analysis, kind, layer, head, budget, wanted) for head in analysis.exact_heads(layer, kind)]


def head_row(analysis: Analysis, kind: str, layer: int, head: int, budget: float, wanted: float) -> dict:
    """The record of one head. None where a number is undefined."""
    found = {"kind": kind, "layer": layer, "head": head}
    measured, sampled = read_head(analysis, kind, layer, head)
    decision = fit_all(measured, budget, wanted)
    numbers = concentration(sampled)
    found |= {name.replace(".", "_"): numbers.get(name) for name in NUMBERS}
    normal = fit(sampled)
    found["score_sigma"] = None if normal is None else normal.sigma
    found["entropy_misfit"] = None if normal is None else normal.entropy_misfit
    first, recent = streaming_sizes(measured.weights.shape[1])
    found |= {"streaming_first": first, "streaming_recent": recent}
    found["streaming_retained"] = float(local_mass(measured, recent, first).mean())
    return found | decision_columns(decision)


def streaming_sizes(n_key: int) -> tuple[int, int]:
    """First and recent keys of DuoAttention's streaming heads; of short texts an eighth and a quarter."""
    return min(128, max(1, n_key // 8)), min(256, max(1, n_key // 4))


def decision_columns(decision: Decision) -> dict:
    """The pattern, and per family what it keeps within the budget and what WANTED costs."""
    found: dict = {"pattern": decision.name}
    for name in SIMPLE_FIRST:
        one = decision.fits[name]
        found[f"{name}_retained"], found[f"{name}_price"] = one.retained, one.price
    chosen = decision.fits.get(decision.name)
    size = (chosen.size if chosen is not None else None) or {}
    return found | {f"pattern_{name}": size.get(name) for name in SIZES}


def as_table(rows: Iterable[dict]) -> pa.Table:
    """The records as a table."""
    return pa.Table.from_pylist(list(rows))

"""Weight, score and entropy by distance and length, with fits; the rotary wave of the model below, on the same axis."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.basins import rope
from backend.basins.distance import ByDistance, binned, by_distance, decay_fits, entropy_slope, log_bins, prior_fit
from backend.sinks.kept import kept_layer
from backend.store import Analysis
from pages.shared.charts.distance_curves import (
    BASELINE_COLOUR,
    CHOSEN_COLOUR,
    FIT_COLOURS,
    THIN_COLOUR,
    Curve,
    distance_curves,
)
from pages.shared.panels.basin_rope import rope_wave
from pages.shared.panels.basin_sentences import percent
from pages.shared.panels.figure import figure
from pages.shared.panels.readable import readable
from pages.shared.view_state import ViewState


def basin_distance(state: ViewState, analysis: Analysis) -> None:
    """Draws the part of the page."""
    sinkfree = state.without_sinks(True)
    found = _read(analysis, analysis.id, state.layer, state.kind, sinkfree)
    if state.head not in found.heads:
        st.text(f"Queries and keys of head {state.layer}.{state.head} were not kept. Choose another head.")
        return
    at = found.heads.index(state.head)
    trained = (analysis.info.get("rotary") or {}).get("trained") or 0
    domain = (1.0, float(max(found.weight.shape[1], trained, 2)))
    left, right = st.columns(2, gap="medium")
    with left, readable():
        weights(state, found, at, domain, sinkfree)
    with right, readable():
        scores(state, analysis, found, at, domain)
    with left, readable():
        rope_wave(state, analysis, domain)
    with right, readable():
        entropies(state, analysis)


@st.cache_resource(max_entries=32, show_spinner="Reading the layer")
def _read(_analysis: Analysis, id: str, layer: int, kind: str, sinkfree: bool) -> ByDistance:
    return by_distance(_analysis, layer, kind, sinkfree=sinkfree)


def middles(n: int) -> np.ndarray:
    """The middle of each log bin, as it is drawn."""
    return np.array([(first + last - 1) / 2 for first, last in log_bins(n)])


def weights(state: ViewState, found: ByDistance, at: int, domain: tuple[float, float], sinkfree: bool) -> None:
    """Mean weight by distance."""
    n = found.weight.shape[1]
    x, mean = middles(n), binned(found.weight, found.rows)
    even = binned(found.uniform, found.rows[at])
    fits = decay_fits(found.weight[at], found.rows[at])
    name = f"{state.layer}.{state.head}"
    others = [
        Curve(f"head {state.layer}.{head}", x, mean[place], "thin", THIN_COLOUR)
        for place, head in enumerate(found.heads)
        if place != at
    ]
    curves = [
        *others,
        Curve(f"head {name} (thick)", x, mean[at], "chosen", CHOSEN_COLOUR),
        Curve("uniform (dashed)", x, even, "baseline", BASELINE_COLOUR),
    ]
    grid = np.geomspace(1, n, 80)
    for (kind, fit), colour in zip(fits.items(), FIT_COLOURS, strict=True):
        if fit is not None:
            line = fit.level + fit.slope * (np.log(grid) if kind == "power" else grid)
            curves.append(Curve(f"{kind} fit", grid, np.exp(line), "fit", colour))
    figure(
        "weight_by_distance",
        distance_curves(curves, title="mean weight", domain=domain, log_y=True),
        sentence=weight_sentence(name, found, at, fits),
        table=pa.table(
            {
                "from": [first for first, _ in log_bins(n)],
                "to": [last - 1 for _, last in log_bins(n)],
                **{f"head_{state.layer}_{h}": nullable(mean[p]) for p, h in enumerate(found.heads)},
                "uniform": nullable(even),
            }
        ),
        terms=("weight_by_distance", "decay_fit"),
        note="Without sinks." if sinkfree else "With sinks: a sink at the start is part of every distance.",
    )


def weight_sentence(name: str, found: ByDistance, at: int, fits: dict) -> str:
    """Where the head's weight lies and which law describes it."""
    total = np.nan_to_num(found.weight[at]) * found.rows[at]
    near = total[:16].sum() / total.sum() if total.sum() > 0 else float("nan")
    text = f"Head {name} puts {percent(near)} of its weight less than 16 tokens back."
    known = {kind: fit for kind, fit in fits.items() if fit is not None and fit.r2 is not None}
    if not known:
        return f"{text} Nothing falls off that could be fitted."
    kind, fit = max(known.items(), key=lambda one: one[1].r2)
    law = f"D^{fit.slope:.2f} (power law)" if kind == "power" else f"e^({fit.slope:.3g} D) (exponential)"
    return f"{text} By distance it goes like {law}, R2 = {fit.r2:.2f}."


def scores(state: ViewState, analysis: Analysis, found: ByDistance, at: int, domain: tuple[float, float]) -> None:
    """Mean score by distance, the prior that fits it, and what the mean query gives the mean key."""
    n = found.score.shape[1]
    x, mean = middles(n), binned(found.score, found.rows)
    name = f"{state.layer}.{state.head}"
    curves = [
        Curve(f"head {state.layer}.{head}", x, mean[place], "thin", THIN_COLOUR)
        for place, head in enumerate(found.heads)
        if place != at
    ]
    curves.append(Curve(f"head {name} (thick)", x, mean[at], "chosen", CHOSEN_COLOUR))
    free = content_free(analysis, state, n)
    if free is not None:
        curves.append(Curve("content-free (dotted)", np.arange(n, dtype=float), free, "fit", FIT_COLOURS[0]))
    prior = prior_fit(found.score[at], found.rows[at])
    figure(
        "score_by_distance",
        distance_curves(curves, title="mean score", domain=domain),
        sentence=prior_sentence(name, prior),
        table=pa.table(
            {
                "from": [first for first, _ in log_bins(n)],
                "to": [last - 1 for _, last in log_bins(n)],
                **{f"head_{state.layer}_{h}": nullable(mean[p]) for p, h in enumerate(found.heads)},
            }
        ),
        terms=("score_by_distance", "prior_fit"),
        note=None
        if free is None
        else "Content-free: what the mean query gives the mean key at that distance, an estimate.",
    )


def prior_sentence(name: str, prior) -> str:
    """The generalised Gaussian in words."""
    if prior.r2 is None:
        return f"The score of head {name} is the same at every distance: it has no positional prior."
    if prior.alpha is None or prior.r2 < 0.1:
        return f"No falling prior describes the score of head {name} (best R2 = {prior.r2:.2f}): it is position-free."
    kind = "a Laplace prior as in ALiBi" if 0.9 <= prior.beta <= 1.1 else "a generalised Gaussian prior"
    return (
        f"The score of head {name} falls like {kind}: ln prior = -(D / {prior.alpha:.3g})^{prior.beta:.2f}, R2 = "
        f"{prior.r2:.2f}."
    )


def content_free(analysis: Analysis, state: ViewState, n: int) -> np.ndarray | None:
    """Only where the model's rotary embedding is known and turns halves."""
    facts = analysis.info.get("rotary")
    if not facts or not facts["halves"]:
        return None
    kept = kept_layer(analysis, state.layer, state.kind, only=[state.head])
    return rope.content_free(kept.query[0, 0], kept.key[0, 0], facts["frequencies"], kept.score.scale, n)


def entropies(state: ViewState, analysis: Analysis) -> None:
    """Entropy of every row against how many keys it sees."""
    table = analysis.rows(kind=state.kind, layer=state.layer, head=state.head).sort_by("query")
    entropy = table["entropy"].to_numpy(zero_copy_only=False).astype(float)
    seen = table["visible_keys"].to_numpy(zero_copy_only=False).astype(float)
    found = entropy_slope(entropy, seen)
    most = max(float(seen.max()), 2.0)
    curves = [
        Curve("rows (thick)", seen, entropy, "chosen", CHOSEN_COLOUR),
        Curve(
            "uniform (dashed)",
            np.geomspace(1, most, 40),
            np.log(np.geomspace(1, most, 40)),
            "baseline",
            BASELINE_COLOUR,
        ),
    ]
    name, text = f"{state.layer}.{state.head}", "Too few rows see a different number of keys for a slope."
    if found is not None:
        grid = np.geomspace(2, most, 40)
        curves.append(Curve("line (dotted)", grid, found.level + found.slope * np.log(grid), "fit", FIT_COLOURS[0]))
        text = (
            f"The entropy of head {name} grows by {found.slope:.2f} for each factor e of visible keys (1 = spreads "
            "over all of them, 0 = as sharp at any length)."
        )
    figure(
        "entropy_by_length",
        distance_curves(curves, title="entropy (nats)", domain=(1.0, most), x_title="visible keys"),
        sentence=text,
        table=table.select(["query", "visible_keys", "entropy"]),
        terms=("entropy", "entropy_slope"),
        note="Entropy of whole rows, sinks included.",
    )


def nullable(values: np.ndarray) -> pa.Array:
    """NaN as null."""
    return pa.array(values.tolist(), from_pandas=True)

"""The rotary wave of the model's own base and scaling, other bases overlaid, the training length marked."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.basins import rope
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.charts.distance_curves import BASE_COLOURS, CHOSEN_COLOUR, Curve, distance_curves
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

KEY = "headwater_basin_bases"
OFFERED = (*rope.BUCKETS, 100_000.0, 500_000.0, 1_000_000.0)
POINTS = 400


def rope_wave(state: ViewState, analysis: Analysis, domain: tuple[float, float]) -> None:
    """Draws the wave; says why where there is none."""
    facts = analysis.info.get("rotary")
    if facts is None:
        known = "rotary" in analysis.info
        st.text(
            "This model has no rotary embedding with one set of frequencies for all layers: there is no wave to draw."
            if known
            else "This analysis was made before the rotary frequencies were kept. Run the prompt again to see the wave."
        )
        return
    chosen = bases_of(state)
    own = np.array(facts["frequencies"])
    distances = np.unique(np.round(np.geomspace(1, domain[1], POINTS)))
    waves = {name_of(facts): rope.wave(own, distances)}
    waves |= {f"base {base:,.0f}": rope.wave(rope.frequencies_of(base, 2 * len(own)), distances) for base in chosen}
    curves = [
        Curve(
            name, distances, values, "chosen" if at == 0 else "base", CHOSEN_COLOUR if at == 0 else BASE_COLOURS[at - 1]
        )
        for at, (name, values) in enumerate(waves.items())
    ]
    trained = facts.get("trained")
    figure(
        "rotary_wave",
        distance_curves(
            curves,
            title="rotary wave",
            domain=domain,
            mark=None if trained is None else (float(trained), "training length"),
        ),
        sentence=wave_sentence(facts, own, trained),
        table=pa.table({"distance": distances, **{name.replace(" ", "_"): values for name, values in waves.items()}}),
        terms=("rotary_wave",),
        note="What equal queries and keys would score at that distance; heads weigh the bands in their own way.",
    )
    st.session_state[KEY] = chosen
    st.multiselect(
        "Other bases",
        list(OFFERED),
        key=KEY,
        format_func=lambda base: f"{base:,.0f}",
        max_selections=len(BASE_COLOURS),
        on_change=_take,
    )


def name_of(facts: dict) -> str:
    """The model's own wave in words."""
    base = "own frequencies" if facts.get("base") is None else f"own base {facts['base']:,.0f}"
    scaled = "" if facts["scaling"] == "default" else f", {facts['scaling']} scaling"
    return f"{base}{scaled} (thick)"


def wave_sentence(facts: dict, own: np.ndarray, trained: int | None) -> str:
    """Where the wave first dips, how long its longest wave is."""
    most = int(trained or 4096)
    values = rope.wave(own, np.arange(most))
    dips = rope.troughs(values)
    first = f"its first dip is at distance {dips[0]:,}" if len(dips) else "it has no dip"
    zero = np.flatnonzero(values < 0)
    below = f"it is below 0 first at {zero[0]:,}" if len(zero) else "it never falls below 0"
    up_to = f"Up to the training length of {trained:,} tokens" if trained else f"Up to {most:,} tokens"
    longest = rope.longest_wavelength(own)
    whole = "turns fully" if trained and longest <= trained else "does not turn fully"
    return (
        f"{up_to}, the wave: {first}, {below}. The slowest band has a wavelength of {longest:,.0f} tokens"
        f"{'' if not trained else f' and {whole} within them'}."
    )


def bases_of(state: ViewState) -> list[float]:
    """The other bases that the address names; by default the first of Attention Buckets."""
    text = state.more("bases", f"{rope.BUCKETS[0]:.0f}")
    wanted = [float(part) for part in text.split("_") if part.isdecimal()]
    return [base for base in wanted if base in OFFERED and math.isfinite(base)][: len(BASE_COLOURS)]


def _take() -> None:
    select(bases="_".join(f"{base:.0f}" for base in st.session_state[KEY]) or "none")

"""Two texts: how much each source token got of a cross-attention, and which one each target token looks at."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.alignment import CROSS, Alignment, alignment_of
from backend.errors import NoExactMap
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.charts.alignment import alignment
from pages.shared.charts.source_coverage import source_coverage
from pages.shared.panels.figure import figure
from pages.shared.panels.unit_sentences import named, share
from pages.shared.view_state import ViewState

KEY = "head_align"
MOST_TARGETS = 60  # rows of the picture; the window of the map chooses others
ONE, MEAN = "one", "layer"
WORDS = {ONE: "this head", MEAN: "all heads of the layer, on average"}


def has_two_texts(analysis: Analysis) -> bool:
    return any(layer.kind == CROSS for layer in analysis.layers())


def head_align(state: ViewState, analysis: Analysis) -> None:
    """Draws the choice and both pictures."""
    if not has_two_texts(analysis):
        st.text("This model reads one text: there is no attention from one text to another.")
        return
    if state.kind != CROSS:
        st.text(f"Shown is attention of the kind {state.kind}. Coverage and alignment are of the cross-attention.")
        st.button("Show the cross-attention", key=KEY + "_kind", on_click=show_cross)
        return
    of = heads_choice(state)
    sizes = {layer.layer: layer.heads for layer in analysis.layers(CROSS)}
    try:
        found = alignment_of(analysis, state.layer, [state.head] if of == ONE else list(range(sizes[state.layer])))
    except NoExactMap as error:
        st.text(str(error))
        return
    sides = {side: [t.label for t in analysis.tokens_list() if t.side == side] for side in ("source", "target")}
    sound = isinstance(analysis.info.get("prompt"), dict) and "audio" in analysis.info["prompt"]
    coverage(found, sides["source"], "time" if sound else "source")
    aligned(state, found, sides, "time" if sound else "source")


def show_cross() -> None:
    select(kind=CROSS, layer=None, head=None, rows=None, columns=None, query=None, key=None)


def heads_choice(state: ViewState) -> str:
    of = MEAN if state.more("of") == MEAN else ONE
    st.session_state[KEY + "_heads"] = of
    st.segmented_control(
        "Attention of",
        [ONE, MEAN],
        format_func=WORDS.get,
        key=KEY + "_heads",
        required=True,
        on_change=lambda: select(of=MEAN if st.session_state[KEY + "_heads"] == MEAN else None),
    )
    return of


def coverage(found: Alignment, labels: list[str], title: str) -> None:
    """How much each source token got."""
    top = int(found.coverage.argmax())
    part = float(found.coverage[top]) / max(float(found.coverage.sum()), 1e-12)
    uncovered = int((found.coverage < 0.1 * found.even).sum())
    text = (
        f"Source token {named(top, labels[top], 20)} got {share(part)} of all attention; {uncovered} of {len(labels)} "
        f"source tokens got less than a tenth of an even share ({found.even:.3g} rows)."
    )
    figure(
        "source_coverage",
        source_coverage(found.coverage, labels, found.even, title=title),
        sentence=text,
        table=pa.table({"source": range(len(labels)), "token": labels, "rows got": found.coverage}),
        terms=("source_coverage", "coverage_deviation"),
        note=f"Coverage deviation {found.coverage_deviation:.3g} (0: every source token got one row's worth).",
    )


def aligned(state: ViewState, found: Alignment, sides: dict[str, list[str]], title: str) -> None:
    """Which source tokens each target token looks at."""
    start, stop = state.rows or (0, len(sides["target"]))
    stop = min(stop, start + MOST_TARGETS)
    rows = slice(start, stop)
    chart = alignment(
        found.weights[rows],
        found.visible[rows],
        start,
        sides["target"][rows],
        sides["source"],
        palette=state.palette,
        title=title,
    )
    figure(
        "alignment",
        chart,
        sentence=alignment_sentence(found, sides),
        table=table_of(found, sides),
        terms=("soft_alignment", "monotonicity", "absentmindedness"),
        note=note(found, start, stop, len(sides["target"])),
    )


def alignment_sentence(found: Alignment, sides: dict[str, list[str]]) -> str:
    strongest = found.weights[np.arange(len(found.best)), found.best]
    mean = float(strongest[found.seeing].mean()) if found.seeing.any() else 0.0
    order = found.monotonicity
    said = "" if math.isnan(order) else f" Order of target and source: rank correlation {order:.2f}."
    return (
        f"On average {share(mean)} of a target token's attention is on one source token (uniform: "
        f"{share(1 / len(sides['source']))}).{said}"
    )


def note(found: Alignment, start: int, stop: int, count: int) -> str:
    """What is drawn, and what it is not."""
    drawn = "" if (start, stop) == (0, count) else f"Target tokens {start} to {stop - 1} of {count} are drawn. "
    return (
        f"{drawn}The three strongest source tokens of every target token; the strongest is ringed. It is what this "
        f"attention looks at, which need not be the word's translation. Absentmindedness "
        f"{found.absentmindedness:.3g} nats."
    )


def table_of(found: Alignment, sides: dict[str, list[str]]) -> pa.Table:
    """One line per target token."""
    rows = np.arange(len(found.best))
    return pa.table(
        {
            "target": pa.array(rows, pa.int64()),
            "token": sides["target"],
            "strongest source": pa.array(
                [int(b) if s else None for b, s in zip(found.best, found.seeing, strict=True)]
            ),
            "its token": [sides["source"][b] if s else None for b, s in zip(found.best, found.seeing, strict=True)],
            "weight": [
                float(w) if s else None for w, s in zip(found.weights[rows, found.best], found.seeing, strict=True)
            ],
            "mean place": [float(p) if s else None for p, s in zip(found.place, found.seeing, strict=True)],
        }
    )

"""Lines between words: the strongest links of the chosen head in a window of the text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.errors import NoExactMap
from backend.store import Analysis
from backend.unit_attention import Units, between
from backend.words import Group
from pages.shared.address import select
from pages.shared.line_view import MOST_LINES, MOST_UNITS, LineView, line_view, strongest
from pages.shared.panels.figure import figure
from pages.shared.panels.sink_keys import sink_keys, taken_out
from pages.shared.panels.unit_choice import special_choice, unit_choice, unit_of, units_here
from pages.shared.panels.unit_sentences import share, taken_out_sentence
from pages.shared.view_state import Span, ViewState

KEY = "head_lines"


def head_lines(state: ViewState, analysis: Analysis) -> None:
    """Draws choices, lines, sentence and table."""
    units = units_here(state, analysis)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        unit_choice(state, KEY + "_unit")
        hide = special_choice(state, KEY + "_special")
    queries, keys = window_of(state.rows, units.queries), window_of(state.columns, units.keys)
    try:
        sinks = taken_out(state, analysis)
        weights, visible = between(analysis, state.layer, state.head, state.kind, units, queries, keys, sinks)
    except NoExactMap as error:
        st.text(str(error))
        return
    total = float(weights.sum())
    left_out = keys_left_out(state, analysis, units, hide)
    drawn = visible.copy()
    columns = [number - keys.start for number in left_out if keys.start <= number < keys.stop]
    drawn[:, columns] = False
    if hide:
        drawn[[at for at, group in enumerate(units.queries[queries]) if group.special]] = False
    lines = strongest(weights, drawn)
    chosen = next((at for at, one in enumerate(units.queries[queries]) if holds(one, state.query)), None)
    view = LineView(
        head=f"{state.layer}.{state.head}",
        queries=units.queries[queries],
        keys=units.keys[keys],
        first_query=queries.start,
        first_key=keys.start,
        lines=lines,
        chosen=chosen,
        picture=KEY,
    )
    line_view(view, lambda token: select(query=token), key=f"{KEY}_view")
    held = float(weights[:, columns].sum()) / total if columns and total > 0 else 0.0
    figure(
        KEY,
        None,
        sentence=sentence(lines, total, int(np.count_nonzero(drawn)), units, queries, keys),
        table=table_of(lines, units, queries, keys),
        terms=("attention_of_units",) if unit_of(state) != "token" else (),
        note=note(len(columns), held, sinks),
        offered=True,
    )


def note(left_out: int, held: float, sinks: tuple[int, ...] | None) -> str | None:
    """What has no lines. sinks: those that were taken out of the rows; None = the view is with them."""
    parts = [] if sinks is None else [taken_out_sentence(sinks)]
    if left_out:
        parts.append(f"{left_out} keys are left out; they hold {share(held)} of the attention here.")
    return " ".join(parts) or None


def holds(group: Group, position: int | None) -> bool:
    """Whether a token is in a unit."""
    return position is not None and group.start <= position < group.end


def window_of(span: Span | None, units: list[Group]) -> slice:
    """The units of the map's window, else the last ones; never more than are drawn."""
    start, stop = 0, len(units)
    if span is not None:
        inside = [at for at, group in enumerate(units) if group.end > span[0] and group.start < span[1]]
        start, stop = (inside[0], inside[-1] + 1) if inside else (start, stop)
    return slice(max(start, stop - MOST_UNITS), stop)


def keys_left_out(state: ViewState, analysis: Analysis, units: Units, special: bool) -> set[int]:
    """Key units without lines: sinks where the map hides them, special tokens where they are left out.

    In the view without sinks they have no share that could be drawn."""
    found = {at for at, group in enumerate(units.keys) if group.special} if special else set()
    if state.more("hide") == "1" and not state.without_sinks():
        places = sink_keys(analysis, analysis.id, state.kind, state.layer, state.head)
        found |= {int(units.key_of[key]) for key in places}
    return found


def sentence(lines: list, total: float, cells: int, units: Units, queries: slice, keys: slice) -> str:
    """How much of the attention the lines hold, and which window they are from."""
    held = sum(weight for _, _, weight in lines) / total if total > 0 else 0.0
    text = f"{len(lines):,} lines hold {share(held)} of the attention between what is shown"
    if cells > len(lines):
        text += f", the strongest of {cells:,} (at most {MOST_LINES:,} are drawn)"
    whole = queries.stop - queries.start == len(units.queries) and keys.stop - keys.start == len(units.keys)
    if whole:
        return text + "."
    return (
        f"{text}. Shown are queries {queries.start} to {queries.stop - 1} and keys {keys.start} to {keys.stop - 1}, at "
        f"most {MOST_UNITS} of each; the window of the map chooses others."
    )


def table_of(lines: list, units: Units, queries: slice, keys: slice) -> pa.Table:
    """The drawn lines, strongest first."""
    ordered = lines[::-1]
    return pa.table(
        {
            "query": pa.array([row + queries.start for row, _, _ in ordered], pa.int64()),
            "query text": pa.array([units.queries[row + queries.start].label for row, _, _ in ordered], pa.string()),
            "key": pa.array([key + keys.start for _, key, _ in ordered], pa.int64()),
            "key text": pa.array([units.keys[key + keys.start].label for _, key, _ in ordered], pa.string()),
            "weight": pa.array([weight for _, _, weight in ordered], pa.float64()),
        }
    )

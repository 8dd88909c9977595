"""Text the model wrote, step by step: where the head looked before each token, and what could have come instead."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.errors import NoExactMap
from backend.map_sizes import SIDES
from backend.store import Analysis
from backend.tokens import visible as shown
from backend.types import Token
from backend.unit_attention import profile, units_of
from pages.shared.address import select
from pages.shared.charts.candidates import candidates
from pages.shared.panels.figure import figure
from pages.shared.panels.sink_keys import taken_out
from pages.shared.panels.unit_sentences import from_sentence, taken_out_sentence
from pages.shared.text_view import TextView, text_view
from pages.shared.view_state import ViewState

KEY = "head_generation"


def head_generation(state: ViewState, analysis: Analysis) -> None:
    """Draws the choice of the step, the text as the head saw it then, and the candidates."""
    side = SIDES[state.kind][0]
    tokens = [token for token in analysis.tokens_list() if token.side == side]
    ranked = predictions_by_position(analysis)
    places = [place for place in sorted(ranked) if 0 <= place < len(tokens)]
    if not places:
        st.text("This analysis holds no candidates for the next token: encoders give none.")
        return
    written = len(places) > 1
    wanted = state.more("step")
    step = int(wanted) if wanted.isdecimal() and int(wanted) < len(places) else 0
    if written:
        step_choice(step, tokens, places)
    else:
        st.text("Nothing was generated in this run, so there is one step: what would come after the last token.")
    place = places[step]
    text, bars = st.columns([0.6, 0.4], gap="medium")
    with bars:
        draw_candidates(tokens, place, ranked[place])
    with text:
        draw_text(state, analysis, tokens, place)


def predictions_by_position(analysis: Analysis) -> dict[int, list[dict]]:
    """position -> candidates in order of rank."""
    found: dict[int, list[dict]] = {}
    for row in analysis.predictions().sort_by([("position", "ascending"), ("rank", "ascending")]).to_pylist():
        found.setdefault(row["position"], []).append(row)
    return found


def step_choice(step: int, tokens: list[Token], places: list[int]) -> None:
    """Steps by number, with what was written in each."""

    def words(number: int) -> str:
        after = places[number] + 1
        return f"{number}: {tokens[after].label}" if after < len(tokens) else f"{number}: what would come next"

    st.session_state[KEY + "_step"] = step
    st.select_slider(
        "Step",
        range(len(places)),
        format_func=words,
        key=KEY + "_step",
        on_change=lambda: select(
            step=str(st.session_state[KEY + "_step"]) if st.session_state[KEY + "_step"] else None
        ),
    )


def draw_candidates(tokens: list[Token], place: int, rows: list[dict]) -> None:
    """The candidates after one position, the written one marked."""
    after = tokens[place + 1] if place + 1 < len(tokens) else None
    taken = next((at for at, row in enumerate(rows) if after is not None and row["token_id"] == after.token_id), None)
    labels = [shown(row["text"]) or f"#{row['token_id']}" for row in rows]
    chances = [math.exp(row["logprob"]) for row in rows]
    if after is None:
        said = f"After token {place} “{tokens[place].label}” the likeliest next is “{labels[0]}” with {chances[0]:.0%}."
    elif taken is None:
        said = f"“{after.label}” was written, which is not among the first {len(rows)} candidates."
    else:
        said = (
            f"“{after.label}” was written: candidate {taken} with {chances[taken]:.0%}; {sum(chances):.0%} is on these."
        )
    table = pa.table(
        {
            "rank": pa.array(range(len(rows)), pa.int64()),
            "token": pa.array(labels, pa.string()),
            "token id": pa.array([row["token_id"] for row in rows], pa.int64()),
            "probability": pa.array(chances, pa.float64()),
            "logprob": pa.array([row["logprob"] for row in rows], pa.float64()),
        }
    )
    figure(
        KEY,
        candidates(labels, chances, taken),
        sentence=said,
        table=table,
        terms=("next_token_probability",),
    )


def draw_text(state: ViewState, analysis: Analysis, tokens: list[Token], place: int) -> None:
    """What the chosen head looked at from the token that the candidates follow."""
    units = units_of(analysis, state.kind, state.layer, "token")
    if len(units.queries) != len(tokens):
        st.text("The positions of this layer stand for several tokens each, so no row belongs to this step.")
        return
    try:
        sinks = taken_out(state, analysis)
        values, visible = profile(analysis, state.layer, state.head, state.kind, units, [place], "from", sinks)
    except NoExactMap as error:
        st.text(str(error))
        return
    end = min(place + 2, len(units.keys)) if state.kind != "cross" else len(units.keys)
    view = TextView(
        units=units.keys[:end],
        values=values[:end],
        visible=np.asarray(visible[:end]),
        chosen=[place] if state.kind != "cross" else [],
        words=f"attention of head {state.layer}.{state.head} from {place} “{tokens[place].label}”"
        + ("" if sinks is None else ", without sinks"),
        picture=f"{KEY}_text",
        left_out=frozenset(key for key in sinks or () if key < end),
        palette=state.palette,
        may_choose=False,
    )
    text_view(view, lambda tokens: None, key=f"{KEY}_view")
    labels = [group.label for group in units.keys]
    said = from_sentence(values, visible, labels, [place], sinkfree=sinks is not None)
    figure(f"{KEY}_text", None, sentence=said, note=None if sinks is None else taken_out_sentence(sinks), offered=True)

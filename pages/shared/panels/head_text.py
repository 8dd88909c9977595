"""The text in reading order, coloured by the attention of the chosen head from or to one token or several."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.errors import NoExactMap
from backend.store import Analysis
from backend.unit_attention import DIRECTIONS, Units, profile
from backend.words import Group
from pages.shared.address import select
from pages.shared.panels.figure import figure
from pages.shared.panels.sink_keys import sink_keys
from pages.shared.panels.unit_choice import special_choice, unit_choice, unit_of, units_here
from pages.shared.panels.unit_sentences import from_sentence, named, share, to_sentence
from pages.shared.text_view import MOST_CHOSEN, TextView, text_view
from pages.shared.view_state import ViewState

KEY = "head_text"
WORDS = {"from": "From the chosen", "to": "To the chosen"}


def head_text(state: ViewState, analysis: Analysis) -> None:
    """Draws choices, text, sentence and table."""
    units = units_here(state, analysis)
    direction = state.more("direction") if state.more("direction") in DIRECTIONS else DIRECTIONS[0]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.session_state[KEY + "_direction"] = direction
        st.segmented_control(
            "Attention",
            DIRECTIONS,
            format_func=WORDS.get,
            key=KEY + "_direction",
            required=True,
            on_change=lambda: select(
                direction=None
                if st.session_state[KEY + "_direction"] == "from"
                else st.session_state[KEY + "_direction"]
            ),
        )
        unit_choice(state, KEY + "_unit")
        hide = special_choice(state, KEY + "_special")
    sides = (units.queries, units.keys) if direction == "from" else (units.keys, units.queries)
    chosen = chosen_units(state, sides[0], direction)
    try:
        values, visible = profile(analysis, state.layer, state.head, state.kind, units, chosen, direction)
    except NoExactMap as error:
        st.text(str(error))
        return
    draw(state, analysis, units, sides, chosen, (values, visible), direction, hide)


def draw(
    state: ViewState,
    analysis: Analysis,
    units: Units,
    sides: tuple[list[Group], list[Group]],
    chosen: list[int],
    found: tuple[np.ndarray, np.ndarray],
    direction: str,
    hide: bool,
) -> None:
    """The picture: of a map within one text the chosen ones are marked in it."""
    values, visible = found
    asked, answered = sides
    left_out = hidden_units(state, analysis, units, direction)
    special = {at for at, group in enumerate(answered) if group.special} if hide else set()
    shown = [at for at in range(len(answered)) if at not in special]
    place = {at: number for number, at in enumerate(shown)}
    who = ", ".join(named(number, asked[number].label, 20) for number in chosen[:4]) + (
        " and more" if len(chosen) > 4 else ""
    )
    same = state.kind != "cross"
    view = TextView(
        units=[answered[at] for at in shown],
        values=values[shown],
        visible=visible[shown],
        chosen=[place[at] for at in chosen if same and at in place],
        words=f"attention of head {state.layer}.{state.head} {direction} {who}",
        left_out=frozenset(place[at] for at in left_out if at in place),
        palette=state.palette,
        may_choose=same,
    )
    if same:
        text_view(view, lambda numbers: take(asked, [shown[number] for number in numbers]), key=f"{KEY}_view")
    else:
        text_view(view, lambda numbers: None, key=f"{KEY}_view")
        pick_other_side(asked, chosen)
    labels = [group.label for group in answered]
    said = (
        from_sentence(values, visible, labels, chosen)
        if direction == "from"
        else to_sentence(values, visible, labels, [group.label for group in asked], chosen)
    )
    figure(
        KEY,
        None,
        sentence=said,
        table=table_of(answered, values, visible),
        terms=("attention_of_units",) if unit_of(state) != "token" else (),
        note=note(values, left_out, special, direction),
    )


def chosen_units(state: ViewState, units: list[Group], direction: str) -> list[int]:
    """The units that hold the tokens of the address; else the marked cell's, the last query, the first key."""
    places = [int(part) for part in state.more("tokens").split(",") if part.isdecimal()][:MOST_CHOSEN]
    marked = state.query if direction == "from" else state.key
    if not places:
        places = [marked if marked is not None else (units[-1].start if direction == "from" else 0)]
    found = {at for at, group in enumerate(units) for place in places if group.start <= place < group.end}
    return sorted(found) or [len(units) - 1 if direction == "from" else 0]


def take(units: list[Group], numbers: list[int]) -> None:
    """What was clicked goes into the address as places of tokens, so that it stays when the unit changes."""
    select(tokens=",".join(str(units[number].start) for number in numbers) or None)


def pick_other_side(units: list[Group], chosen: list[int]) -> None:
    """Where queries and keys are two texts, the chosen ones are taken from a list."""
    st.session_state[f"{KEY}_other"] = chosen
    st.multiselect(
        "Chosen",
        range(len(units)),
        format_func=lambda number: named(number, units[number].label),
        key=f"{KEY}_other",
        max_selections=MOST_CHOSEN,
        on_change=lambda: take(units, st.session_state[f"{KEY}_other"]),
    )


def hidden_units(state: ViewState, analysis: Analysis, units: Units, direction: str) -> set[int]:
    """Units of the head's sinks, where the map hides sink columns: they are not coloured."""
    if state.more("hide") != "1" or direction != "from":
        return set()
    return {int(units.key_of[key]) for key in sink_keys(analysis, analysis.id, state.kind, state.layer, state.head)}


def note(values: np.ndarray, left_out: set[int], special: set[int], direction: str) -> str | None:
    """What is not coloured, and how much it holds."""
    parts = []
    if left_out:
        parts.append(
            f"Sinks are not coloured; they hold {share(float(values[sorted(left_out)].sum()))} of the attention."
        )
    if special and direction == "from":
        parts.append(f"The special tokens that are left out hold {share(float(values[sorted(special)].sum()))}.")
    elif special:
        parts.append(f"{len(special)} special tokens are left out.")
    return " ".join(parts) or None


def table_of(units: list[Group], values: np.ndarray, visible: np.ndarray) -> pa.Table:
    """The numbers behind the colours; null where a unit is not visible."""
    return pa.table(
        {
            "unit": pa.array(range(len(units)), pa.int64()),
            "first token": pa.array([group.start for group in units], pa.int64()),
            "text": pa.array([group.label for group in units], pa.string()),
            "weight": pa.array([float(v) if s else None for v, s in zip(values, visible, strict=True)], pa.float64()),
        }
    )

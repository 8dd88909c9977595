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
from pages.shared.panels.sink_keys import sink_keys, taken_out
from pages.shared.panels.unit_choice import special_choice, unit_choice, unit_of, units_here
from pages.shared.panels.unit_sentences import from_sentence, named, share, taken_out_sentence, to_sentence
from pages.shared.text_view import MOST_CHOSEN, TextView, text_view
from pages.shared.view_state import ViewState

KEY = "head_text"
WORDS = {"from": "From the chosen", "to": "To the chosen"}
MOST_CELLS = 2**26  # of a map whose every row is read to know what its sinks leave
TOO_LONG = (
    "Attention to a token is shown with sinks here: what sinks leave of every row takes the whole map, which is read "
    f"up to {int(MOST_CELLS**0.5):,} tokens."
)


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
    sinks = taken_out(state, analysis)
    if sinks is not None and direction == "to" and len(units.query_of) * len(units.key_of) > MOST_CELLS:
        sinks = None
        st.text(TOO_LONG)
    try:
        values, visible = profile(analysis, state.layer, state.head, state.kind, units, chosen, direction, sinks)
    except NoExactMap as error:
        st.text(str(error))
        return
    draw(state, analysis, units, sides, chosen, (values, visible), direction, hide, sinks)


def draw(
    state: ViewState,
    analysis: Analysis,
    units: Units,
    sides: tuple[list[Group], list[Group]],
    chosen: list[int],
    found: tuple[np.ndarray, np.ndarray],
    direction: str,
    hide: bool,
    sinks: tuple[int, ...] | None,
) -> None:
    """The picture: of a map within one text the chosen ones are marked in it."""
    values, visible = found
    asked, answered = sides
    left_out = hidden_units(state, analysis, units, direction, sinks)
    special = {at for at, group in enumerate(answered) if group.special} if hide else set()
    shown = [at for at in range(len(answered)) if at not in special]
    place = {at: number for number, at in enumerate(shown)}
    same = state.kind != "cross"
    view = TextView(
        units=[answered[at] for at in shown],
        values=values[shown],
        visible=visible[shown],
        chosen=[place[at] for at in chosen if same and at in place],
        words=words(state, asked, chosen, direction) + ("" if sinks is None else ", without sinks"),
        left_out=frozenset(place[at] for at in left_out if at in place),
        picture=KEY,
        palette=state.palette,
        may_choose=same,
    )
    if same:
        text_view(view, take, key=f"{KEY}_view")
    else:
        text_view(view, lambda tokens: None, key=f"{KEY}_view")
        pick_other_side(asked, chosen)
    labels = [group.label for group in answered]
    said = (
        from_sentence(values, visible, labels, chosen, sinkfree=sinks is not None)
        if direction == "from"
        else to_sentence(values, visible, labels, [group.label for group in asked], chosen, sinkfree=sinks is not None)
    )
    figure(
        KEY,
        None,
        sentence=said,
        table=table_of(answered, values, visible),
        terms=("attention_of_units",) if unit_of(state) != "token" else (),
        note=note(values, left_out, special, direction, sinks),
        offered=True,
    )


def words(state: ViewState, asked: list[Group], chosen: list[int], direction: str) -> str:
    """What the colours mean."""
    who = ", ".join(named(number, asked[number].label, 20) for number in chosen[:4])
    more = " and more" if len(chosen) > 4 else ""
    return f"attention of head {state.layer}.{state.head} {direction} {who}{more}"


def chosen_units(state: ViewState, units: list[Group], direction: str) -> list[int]:
    """The units that hold the tokens of the address; else the marked cell's, the last query, the first key."""
    places = [int(part) for part in state.more("tokens").split(",") if part.isdecimal()][:MOST_CHOSEN]
    marked = state.query if direction == "from" else state.key
    if not places:
        places = [marked if marked is not None else (units[-1].start if direction == "from" else 0)]
    found = {at for at, group in enumerate(units) for place in places if group.start <= place < group.end}
    return sorted(found) or [len(units) - 1 if direction == "from" else 0]


def take(tokens: list[int]) -> None:
    """What is chosen goes into the address as places of tokens, so that it stays when the unit changes."""
    select(tokens=",".join(map(str, tokens)) or None)


def pick_other_side(units: list[Group], chosen: list[int]) -> None:
    """Where queries and keys are two texts, the chosen ones are taken from a list."""
    st.session_state[f"{KEY}_other"] = chosen
    st.multiselect(
        "Chosen",
        range(len(units)),
        format_func=lambda number: named(number, units[number].label),
        key=f"{KEY}_other",
        max_selections=MOST_CHOSEN,
        on_change=lambda: take([units[number].start for number in st.session_state[f"{KEY}_other"]]),
    )


def hidden_units(
    state: ViewState, analysis: Analysis, units: Units, direction: str, sinks: tuple[int, ...] | None
) -> set[int]:
    """Units that are not coloured: those with a sink where the map hides sink columns, and those that are nothing but
    sinks where their share is taken out of the rows."""
    if direction != "from":
        return set()
    if sinks is not None:
        out = set(sinks)
        return {int(units.key_of[key]) for key in out if whole_unit(units.keys[units.key_of[key]], out)}
    if state.more("hide") != "1":
        return set()
    return {int(units.key_of[key]) for key in sink_keys(analysis, analysis.id, state.kind, state.layer, state.head)}


def whole_unit(unit: Group, keys: set[int]) -> bool:
    """Whether all tokens of a unit are among the keys."""
    return keys.issuperset(range(unit.start, unit.end))


def note(
    values: np.ndarray, left_out: set[int], special: set[int], direction: str, sinks: tuple[int, ...] | None
) -> str | None:
    """What is not coloured, and how much it holds."""
    parts = []
    if sinks is not None:
        parts.append(taken_out_sentence(sinks))
    elif left_out:
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

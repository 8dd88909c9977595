"""The random-repeat study: what may be chosen about it, and what it found, as a heat chart and a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import streamlit as st

from backend.map_sizes import MapSize
from backend.store import Study
from backend.studies.random_repeat import SCORES, STUDY, Parameters
from pages.shared.address import select
from pages.shared.charts.layer_head_heat import PICKED, layer_head_heat
from pages.shared.charts.spec import spec_of
from pages.shared.view_state import Outline, ViewState, fit, without_defaults

KEY = "headwater_repeat_"
CHART = KEY + "chart"
STRONG = {"induction": 0.4, "duplicate_token": 0.4, "previous_token": 0.5}  # from here a head is named after the score
WORDS = {"induction": "Induction", "duplicate_token": "Duplicate token", "previous_token": "Previous token"}


def parameters() -> Parameters:
    """Draws the choices."""
    with st.container(horizontal=True, gap="small"):
        length = st.number_input("Tokens in one copy", 2, 10_000, 50, key=KEY + "length")
        samples = st.number_input("Texts", 1, 1000, 10, key=KEY + "samples")
        seed = st.number_input("Seed", 0, 2**31 - 1, 0, key=KEY + "seed")
    keep = st.checkbox("Keep the analysis of each text as well", key=KEY + "keep")
    return Parameters(length=int(length), samples=int(samples), seed=int(seed), keep_analyses=keep)


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """The nearest view that the study has. No layer and head means the strongest one."""
    places = study.sql("SELECT DISTINCT kind, layer, head FROM scores ORDER BY kind, layer, head").to_pylist()
    heads = Counter((place["kind"], place["layer"]) for place in places)
    n = int(study.info.get("n_tokens") or 1)
    sites: dict[str, dict[int, MapSize]] = {}
    for (kind, layer), count in heads.items():
        sites.setdefault(kind, {})[layer] = MapSize(count, n, n)
    has = Outline(sites, frozenset(SCORES), SCORES[0])
    nearest, notices = fit(state, has)
    if state.layer is None and state.head is None:
        nearest = replace(nearest, layer=None, head=None)
    short = without_defaults(nearest, has)
    return replace(nearest, kind=short.kind, measure=short.measure), notices


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found."""
    score = state.measure or SCORES[0]
    table = study.table("scores")
    table = table.filter(table["kind"].to_numpy(zero_copy_only=False) == (state.kind or table["kind"][0].as_py()))
    rows = sorted(table.to_pylist(), key=lambda row: -1.0 if row[score] is None else row[score], reverse=True)
    chosen = chosen_row(rows, state)
    st.session_state[KEY + "score"] = score
    st.segmented_control("Score", SCORES, format_func=WORDS.get, key=KEY + "score", on_change=_take_score)
    st.text(sentence(rows, score))
    layers = sorted({row["layer"] for row in rows})
    values = np.full((len(layers), 1 + max(row["head"] for row in rows)), np.nan)
    for row in rows:
        if row[score] is not None:
            values[layers.index(row["layer"]), row["head"]] = row[score]
    heat, numbers = st.columns([0.45, 0.55], gap="medium")
    with heat:
        picture = layer_head_heat(
            layers,
            values,
            title=f"{WORDS[score]} (weight)",
            selected=(chosen["layer"], chosen["head"]),
            palette=state.palette,
        )
        st.vega_lite_chart(spec=spec_of(picture), key=CHART, on_select=_take_head, selection_mode=PICKED)
    with numbers:
        st.text(head_sentence(chosen))
        others = [name for name in SCORES if name != score]
        shown = {"layer": "layer", "head": "head", score: WORDS[score].lower(), f"{score}_error": "±"}
        shown |= {f"{score}_uniform": "uniform"} | {name: WORDS[name].lower() for name in others}
        ranked = [{words: row[name] for name, words in shown.items()} for row in rows]
        st.dataframe(ranked, hide_index=True, height=min(38 * (len(rows) + 1), 420))
        definition(study, score)


def chosen_row(rows: list[dict], state: ViewState) -> dict:
    """The head of the address, else the strongest one."""
    wanted = (state.layer, state.head)
    return next((row for row in rows if (row["layer"], row["head"]) == wanted), rows[0])


def sentence(rows: list[dict], score: str) -> str:
    """The answer in a sentence; rows by falling score."""
    best, words = rows[0], WORDS[score].lower()
    if best[score] is None:
        return f"No head has a value for {words}: none of them sees its target."
    strong = sum(row[score] is not None and row[score] >= STRONG[score] for row in rows)
    many = f"{strong} of {len(rows)} heads reach {STRONG[score]:g}"
    return f"{many}; the strongest {words} head is {place(best)} with {value(best, score)}."


def head_sentence(row: dict) -> str:
    """All scores of one head."""
    return f"Head {place(row)}: " + ", ".join(f"{WORDS[name].lower()} {value(row, name)}" for name in SCORES) + "."


def place(row: dict) -> str:
    """layer.head"""
    return f"{row['layer']}.{row['head']}"


def value(row: dict, score: str) -> str:
    """Mean, standard error and uniform value."""
    if row[score] is None:
        return "undefined (its target is not visible)"
    error = "" if row[f"{score}_error"] is None else f" ± {row[f'{score}_error']:.3f}"
    return f"{row[score]:.3f}{error} (uniform attention {row[f'{score}_uniform']:.3f})"


def definition(study: Study, score: str) -> None:
    """What the number means, and the tables as files."""
    asked = study.info["parameters"]
    with st.expander("Definition"):
        st.text(
            f"{WORDS[score]}: {STUDY.tables['scores'][score].meaning}. Each of {asked['samples']} texts is a first "
            f"token and {asked['length']} random tokens twice (seed {asked['seed']}). ± is the standard error."
        )
    forms = " · ".join(
        f"{name}: " + " ".join(f"[{form}](data/{study.id}/{name}.{form})" for form in ("parquet", "csv", "json"))
        for name in STUDY.tables
    )
    st.caption(f"The tables as files: {forms}")  # ids are letters, digits, '-' and '_'


def _take_score() -> None:
    chosen = st.session_state[KEY + "score"]  # None where the chosen one was clicked again
    select(measure=chosen if chosen in SCORES[1:] else None)


def _take_head() -> None:
    points = st.session_state[CHART].selection.get(PICKED, [])
    if points and all(isinstance(points[0].get(name), int) for name in ("layer", "head")):
        select(layer=points[0]["layer"], head=points[0]["head"])

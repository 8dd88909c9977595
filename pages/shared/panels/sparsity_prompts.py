"""Over a set of prompts: which patterns hold, which do not, and how policies spread."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from backend import policies, prompt_sets
from backend.errors import HeadwaterError
from backend.sparsity.patterns import WORDS
from backend.store import Analysis, Study
from backend.studies.prompt_patterns import LONGEST, STUDY, Parameters
from pages.shared.charts.pattern_grid import pattern_grid
from pages.shared.charts.spread_bars import spread_bars
from pages.shared.panels.figure import figure
from pages.shared.panels.page_study import page_study
from pages.shared.panels.readable import readable
from pages.shared.panels.sparsity_cost import title_of
from pages.shared.panels.sparsity_sentences import percent
from pages.shared.view_state import ViewState

KEY = "headwater_sparsity_prompts_"


def sparsity_prompts(state: ViewState, analysis: Analysis) -> None:
    """Draws the part."""
    place = st.container()
    study = page_study(state, STUDY, parameters(), analysis.info)
    with place, readable():
        if study is None:
            st.text(
                "One prompt says what a head does there. Over a set of prompts it shows which patterns a head "
                "always has: "
                "those can be fixed beforehand, the others must be found at run time."
            )
        else:
            found(state, study)


def parameters() -> Parameters | None:
    """Draws the choices: how many texts, how long, and texts of one's own."""
    with st.container(horizontal=True, gap="small"):
        samples = st.number_input("Texts", 1, 1000, 8, key=KEY + "samples")
        length = st.number_input("Tokens of each at most", 2, LONGEST, 128, key=KEY + "length")
    own = st.text_area(
        "Texts of your own, one a paragraph (none: the forty that come with Headwater)", key=KEY + "texts", height=68
    )
    try:
        texts = tuple(prompt_sets.read_set(own).texts) if own.strip() else ()
        return Parameters(samples=len(texts) or int(samples), length=int(length), texts=texts)
    except HeadwaterError as error:
        st.text(str(error))
        return None


def found(state: ViewState, study: Study) -> None:
    """What the study found."""
    heads = study.table("heads").to_pylist()
    given = study.info["parameters"]
    steady = [row for row in heads if row["agreement"] == 1]
    counts = ", ".join(f"{n} {WORDS[name]}" for name, n in Counter(row["pattern"] for row in steady).most_common())
    shown = [{**row, "retained": row["agreement"]} for row in heads]
    prompts = heads[0]["prompts"]
    left, right = st.columns([0.5, 0.5], gap="medium")
    with left:
        figure(
            "sparsity_steady",
            pattern_grid(shown, WORDS, selected=(state.layer, state.head), retained="share of the prompts with it",
                         fade="kept"),
            sentence=f"{len(steady)} of {len(heads)} heads have the same pattern on all {prompts} prompts"
            + (f": {counts}." if steady else "."),
            note=f"Each cell: the pattern most prompts have; the fainter, the fewer. Compared at "
            f"{percent(given['budget'])} of the pairs. {measured(study)}",
            table=study.table("heads"),
            terms=("pattern", "coverage"),
        )  # fmt: skip
    rows = study.table("policies").to_pylist()
    with right:
        if rows:
            rows.sort(key=lambda row: -row["retained"])
            named = [{**row, "title": title_of(row["policy"])} for row in rows]
            best = next((row for row in named if not policies.all()[row["policy"]].looks_ahead), named[0])
            figure(
                "sparsity_policy_spread",
                spread_bars(named, title="attention of later rows retained"),
                sentence=f"With {percent(given['keep'])} of the keys, {best['title']} retains "
                f"{percent(best['retained'])} "
                f"on average, {percent(best['least'])} to {percent(best['most'])} over {best['prompts']} prompts.",
                note="Judged by the last quarter of each text, at most 256 rows; the tokens before are in the cache.",
                table=study.table("policies"),
                terms=("retained_mass", "policy_budget"),
            )
        own = next((r for r in heads if (r["layer"], r["head"]) == (state.layer, state.head)), heads[0])
        spread = "" if own["share_95_spread"] is None else f" ± {percent(own['share_95_spread'])}"
        st.text(
            f"Head {own['layer']}.{own['head']}: {WORDS[own['pattern']]} on {percent(own['agreement'])} of the "
            f"prompts; "
            f"needs {percent(own['share_95'])}{spread} of the visible keys for 95 % of its attention."
        )


def measured(study: Study) -> str:
    """How many rows the numbers are made of."""
    counts = Counter(row["sample"] for row in study.table("texts").to_pylist()).values()
    least, most = min(counts), max(counts)
    rows = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"Measured on all rows of every text: {rows} of each, {sum(counts):,} together."

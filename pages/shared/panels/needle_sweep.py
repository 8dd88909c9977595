"""The needle sweep: the grid, the heads that fetch the answer, and what happens without them."""

from __future__ import annotations

from statistics import fmean

import pyarrow as pa
import streamlit as st

from backend.basins.retrieval import THRESHOLD
from backend.errors import Refused
from backend.store import Study
from backend.studies.needle_sweep import Parameters
from pages.shared.charts.needle_grid import needle_grid
from pages.shared.charts.ranked_heads import ranked_heads
from pages.shared.panels.basin_sentences import percent
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

KEY = "headwater_needle_"
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
RANKED = 15


def parameters() -> Parameters | None:
    """Draws the choices; None where they are refused, and why."""
    plain = Parameters()
    lengths = st.pills(
        "Lengths (tokens)",
        LENGTHS,
        default=list(plain.lengths),
        selection_mode="multi",
        format_func=lambda length: f"{length:,}",
        key=KEY + "lengths",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        depths = st.number_input("Depths", 1, 21, len(plain.depths), key=KEY + "depths")
        alike = st.number_input("Look-alikes", 0, 14, plain.look_alikes, key=KEY + "alike")
        off = st.number_input("Heads off", 1, 1000, plain.heads_off, key=KEY + "off")
    needle = st.text_input("Needle", plain.needle, key=KEY + "needle", max_chars=500)
    question = st.text_input("Question", plain.question, key=KEY + "question", max_chars=500)
    cue = st.text_input("How the answer begins (may be empty)", plain.cue, key=KEY + "cue", max_chars=200)
    answer = st.text_input("Answer (words of the needle)", plain.answer, key=KEY + "answer", max_chars=200)
    with st.expander("Text and look-alikes of your own"):
        hay = st.text_area(
            "Text that hides it (left empty: prose written for Headwater)", key=KEY + "hay", max_chars=500_000
        )
        others = st.text_area(
            "Look-alikes, one a line (left empty: as many of Headwater's as above)",
            key=KEY + "others",
            max_chars=10_000,
        )
    try:
        return Parameters(
            lengths=tuple(sorted(lengths)),
            depths=tuple(round(at / max(depths - 1, 1), 4) for at in range(int(depths))),
            needle=needle,
            question=question,
            cue=cue,
            answer=answer,
            look_alikes=int(alike),
            others=tuple(line.strip() for line in (others or "").splitlines() if line.strip()),
            hay=hay or "",
            heads_off=int(off),
        )
    except Refused as error:
        st.text(str(error))
        return None


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """Nothing of the address depends on the study."""
    return state, []


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found."""
    cells, heads = study.table("cells"), study.table("heads")
    rows = cells.to_pylist()
    left, right = st.columns([0.55, 0.45], gap="medium")
    with left:
        figure(
            "needle_grid",
            needle_grid(rows, palette=state.palette),
            sentence=grid_sentence(rows),
            table=cells,
            terms=("needle_answer", "needle_mass"),
        )
        check(study)
    with right:
        ranking(state, heads)


def grid_sentence(rows: list[dict]) -> str:
    """How often the answer was given, and where it was least probable."""
    found = sum(row["exact"] for row in rows)
    known = [row for row in rows if row["logprob"] is not None]
    text = f"The answer was given in {found} of {len(rows)} cells."
    if known:
        worst = min(known, key=lambda row: row["logprob"])
        text += (
            f" It was least probable at {worst['length']:,} tokens and depth {percent(worst['depth'])} (ln p "
            f"{worst['logprob']:.2f})."
        )
    mass, alike = ([row[name] for row in rows if row[name] is not None] for name in ("needle_mass", "alike_mass"))
    if not mass or not alike:
        return f"{text} No head saw the {'look-alikes' if mass else 'needle'} while it was written."
    return (
        f"{text} While it was written, heads gave {percent(fmean(mass))} to the needle and {percent(fmean(alike))} to "
        "look-alikes."
    )


def ranking(state: ViewState, heads: pa.Table) -> None:
    """Retrieval heads."""
    rows = [row for row in heads.to_pylist() if row["retrieval"] is not None]
    if not rows:
        st.text("No cell counts for the retrieval score: the answer was never recalled by more than half.")
        st.dataframe(heads, hide_index=True, height=320)
        return
    many = sum(row["retrieval"] >= THRESHOLD for row in rows)
    known = [row for row in rows if row["auroc"] is not None]
    best = max(known, key=lambda row: row["auroc"]) if known else None
    told = (
        "AUROC is not defined: success does not vary over the cells."
        if best is None
        else f"Its mass tells success best in head {best['layer']}.{best['head']} (AUROC {best['auroc']:.2f})."
    )
    figure(
        "retrieval_heads",
        ranked_heads(
            [f"{row['layer']}.{row['head']}" for row in rows[:RANKED]],
            [row["retrieval"] for row in rows[:RANKED]],
            selected=f"{state.layer}.{state.head}",
            title="retrieval score",
        ),
        sentence=f"{many} of {len(rows)} heads score {THRESHOLD:g} or more (an unverified default), over "
        f"{rows[0]['cells']} cells that count. {told}",
        table=heads,
        terms=("retrieval_score", "needle_mass"),
    )


def check(study: Study) -> None:
    """The causal check in a sentence and a table."""
    rows = {row["off"]: row for row in study.table("causal_check").to_pylist()}
    if "top" not in rows:
        st.text("The causal check was left out.")
        return
    top, random, plain = rows["top"], rows["random"], rows["nothing"]
    if None in (top["logprob"], random["logprob"], plain["logprob"]):
        st.text("Log-probabilities cannot be had for this model.")
        return
    losses = [plain["logprob"] - row["logprob"] for row in (top, random)]
    more = "More than chance would" if losses[0] > losses[1] else "No more than others"
    figure(
        "without_the_strongest_heads",
        None,
        sentence=f"Without the {top['heads']} strongest retrieval heads the answer loses {losses[0]:.2f} nats, without "
        f"as many random ones {losses[1]:.2f}; it is given in {percent(top['exact'])} and {percent(random['exact'])} "
        f"of the cells instead of {percent(plain['exact'])}. {more}: these heads "
        f"{'fetch' if losses[0] > losses[1] else 'are not what fetches'} the answer.",
        table=study.table("causal_check"),
        terms=("needle_answer",),
    )

"""What becomes of the next token, the loss and the sinks: one change after the other, as a real run found it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.store import Study
from backend.studies.sink_whatif import Parameters
from pages.shared.address import select
from pages.shared.charts.before_after import before_after
from pages.shared.charts.effect_bars import effect_bars
from pages.shared.panels.figure import figure
from pages.shared.view_state import ViewState

KEY = "headwater_whatif_"
WORDS = {
    "hide": "Hide the sink",
    "scale": "Scale the sink",
    "act": "Scale later sinks (ACT)",
    "front": "Put text in front",
    "swap": "Swap the first token",
    "drop": "Drop the first token",
}
START_THERE = "It is started on the page Sinks, for the prompt that is shown there."


def parameters() -> Parameters:
    """Draws the choices of the form on the page of studies."""
    st.text(START_THERE)
    return Parameters()


def fitted(state: ViewState, study: Study) -> tuple[ViewState, list[str]]:
    """Nothing of the address depends on the study."""
    return state, []


def result(state: ViewState, study: Study) -> None:
    """Draws what the study found."""
    effects = {name_of(row): row for row in study.table("effects").to_pylist()}
    measured = {name: row for name, row in effects.items() if row["note"] is None}
    for row in effects.values():
        if row["note"] is not None:
            st.text(f"{words_of(row)}: {row['note']}")
    if not measured:
        return
    name = state.more("edit", next(iter(measured)))
    name = name if name in measured else next(iter(measured))
    st.session_state[KEY + "edit"] = name
    st.pills(
        "Change",
        list(measured),
        format_func=lambda name: words_of(measured[name]),
        key=KEY + "edit",
        on_change=_take_edit,
        args=(name,),
    )
    left, right = st.columns(2, gap="medium")
    with left:
        next_tokens(study, measured[name])
    with right:
        all_effects(measured)


def name_of(row: dict) -> str:
    """A change as the address names it. Studies of an earlier version had one factor and did not say it."""
    return row["edit"] if row.get("factor") is None else f"{row['edit']}_{row['factor']:g}"


def words_of(row: dict) -> str:
    """A change in a few words."""
    return WORDS[row["edit"]] + ("" if row.get("factor") is None else f" × {row['factor']:g}")


def next_tokens(study: Study, row: dict) -> None:
    """The most probable next tokens before and after one change."""
    scaled = {} if row.get("factor") is None else {"factor": row["factor"]}
    table = study.table("candidates", edit=row["edit"], **scaled).sort_by("rank")
    names = [shown(text) for text in table["text"].to_pylist()]
    before, after = (table[side].to_pylist() for side in ("before", "after"))
    best = [max(range(len(names)), key=side.__getitem__) for side in (before, after)]
    same = "stays" if best[0] == best[1] else f"becomes “{names[best[1]]}”"
    figure(
        "whatif_tokens",
        before_after(names, before, after),
        sentence=f"{row['what']} The most probable next token “{names[best[0]]}” ({before[best[0]]:.0%}) {same} "
        f"({after[best[1]]:.0%}). {numbers_of(row)}",
        table=table,
        terms=("kl_after_before", "loss_before_after"),
    )


def numbers_of(row: dict) -> str:
    """KL, loss and sinks of one change in words."""
    text = f"KL {row['kl']:.3g} nats behind the prompt"
    if row["loss_before"] is not None:
        text += (
            f"; loss {row['loss_before']:.3f} before and {row['loss_after']:.3f} after, over the {row['compared']} "
            "tokens that both runs predict"
        )
    if row["sink_before"] is not None:
        after = "out of sight or gone" if row["sink_after"] is None else f"{row['sink_after']:.2f}"
        text += f"; importance of the sink {row['sink_before']:.2f} before, {after} after"
    if row["sink_heads_before"] is not None and row["sink_heads_after"] is not None:
        text += f"; sink heads {row['sink_heads_before']} before, {row['sink_heads_after']} after"
    if row["first_after"] is not None:
        text += f"; the token that is first then gets {row['first_after']:.2f}"
    return text + "."


def all_effects(measured: dict[str, dict]) -> None:
    """Every change beside the others."""
    rows = sorted(measured.values(), key=lambda row: -row["kl"])
    values = np.array([row["kl"] for row in rows])
    losses = [(words_of(row), row["loss_after"] - row["loss_before"]) for row in rows if row["loss_before"] is not None]
    most = rows[0]
    told = f"The largest divergence comes from “{words_of(most)}”: KL {most['kl']:.3g} nats."
    if losses:
        what, rise = max(losses, key=lambda one: one[1])
        told += f" The loss rises most with “{what}”: {rise:+.3f} nats per token."
    figure(
        "whatif_effects",
        effect_bars([words_of(row) for row in rows], values, title="KL(after || before), nats", format=".3~g"),
        sentence=told,
        note="That attention moves does not say that the answer does; these numbers come from runs with the change.",
        table=pa.Table.from_pylist(rows),
        terms=("kl_after_before", "loss_before_after"),
    )


def shown(text: str) -> str:
    """A token with visible white space."""
    return text.replace(" ", "·").replace("\n", "↵") or "∅"


def _take_edit(before: str) -> None:
    select(edit=st.session_state[KEY + "edit"] or before)

"""Blocks of the chosen head: FlexPrefill's decision, estimates against the best blocks, advice; files for others."""

from __future__ import annotations

import pyarrow as pa
import streamlit as st

from backend.errors import HeadwaterError
from backend.map_sizes import map_sizes
from backend.sparsity.blocks import advise, tightness
from backend.sparsity.exports import duo_attention_json, minference_json
from backend.sparsity.flexprefill import decide
from backend.sparsity.patterns import WORDS
from backend.sparsity.rows import Rows, measured_rows, read_note
from backend.store import Analysis
from pages.shared.charts.block_choices import block_choices
from pages.shared.panels.figure import figure
from pages.shared.panels.sparsity_sentences import percent
from pages.shared.view_state import ViewState


def sparsity_blocks(state: ViewState, analysis: Analysis, rows: Rows) -> None:
    """Draws the figure. rows: the measured rows of the chosen head."""
    kept = analysis.kept(state.layer, state.head, kind=state.kind)
    if kept.dense is not None:
        st.text("Blocks are chosen by queries and keys, and only the weights of this family were stored.")
        return
    query, key = kept.query[0, 0].double().numpy(), kept.key[0, 0].double().numpy()
    score, size = analysis.score(state.layer, state.kind), map_sizes(analysis)[state.kind][state.layer]
    query, scale = query[rows.numbers(size, score.causal)], score.scale
    advice, flex = advise(rows, query, key), decide(rows, query, key, scale)
    said = f"FlexPrefill would choose {WORDS[flex.kind]} for head {state.layer}.{state.head}: D = {flex.distance:.3f} "
    said += f"({'below' if flex.kind == 'block' else 'not below'} 0.1), {percent(flex.density)} of the pairs, "
    best = WORDS.get(advice.recommended, advice.recommended)
    said += f"{percent(flex.retained)} of the attention. Best within 20 %: {best}, "
    said += f"which keeps {percent(advice.retained)} and could be at most {advice.speed_up:.1f} times as fast."
    note = (
        read_note(analysis, state.kind, state.layer)
        + f"Quest's bound lies {tightness(query, key, rows):.3g} above the largest product of a page of 16 on average. "
    )
    figure(
        "sparsity_blocks",
        block_choices(advice.table),
        sentence=said,
        note=note + (advice.warning or ""),
        table=pa.Table.from_pylist(advice.table),
        terms=("flexprefill", "block_recall", "quest_bound", "retained_mass"),
    )


def pattern_files(analysis: Analysis, kind: str, rows: list[dict]) -> None:
    """The patterns of all heads as files that others read."""
    if not rows:
        return
    size, layers = next(iter(map_sizes(analysis)[kind].values())), analysis.layers(kind)
    part = measured_rows(size.queries, size.keys)
    ending = f"_rows_{part.start}_to_{part.stop - 1}" if part.start else ""
    with st.container(horizontal=True, gap="small"):
        for label, name, make in (
            ("MInference's JSON", "minference", lambda: minference_json(rows, layers, size.keys)),
            ("DuoAttention's JSON", "duo_attention", lambda: duo_attention_json(rows, layers, part)),
        ):
            try:
                st.download_button(
                    f"Patterns as {label}",
                    make(),
                    file_name=f"{name}{ending}.json",
                    mime="application/json",
                    key=f"headwater_sparsity_{name}",
                    on_click="ignore",
                )
            except HeadwaterError as error:
                st.text(str(error))

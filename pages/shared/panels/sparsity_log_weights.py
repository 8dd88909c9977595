"""The log-normal picture of the chosen head: the logarithms of its weights, the fitted normal, and its misfit."""

from __future__ import annotations

import pyarrow as pa
import streamlit as st

from backend.sparsity import lognormal
from backend.sparsity.rows import Rows
from pages.shared.charts.log_weights import log_weights
from pages.shared.panels.figure import figure
from pages.shared.panels.sparsity_sentences import log_normal_sentence, percent
from pages.shared.view_state import ViewState


def sparsity_log_weights(state: ViewState, sampled: Rows) -> None:
    """Draws the figure. sampled: the sampled rows of the chosen head."""
    found, fitted = lognormal.histogram(sampled), lognormal.fit(sampled)
    if found is None or fitted is None:
        st.text(
            f"Head {state.layer}.{state.head} has no log-normal picture: no sampled row sees {lognormal.FEWEST_KEYS} "
            "keys or more with weights above 0 that differ."
        )
        return
    table = pa.table(
        {"from_nats": found.edges[:-1], "to_nats": found.edges[1:], "measured": found.share, "normal": found.normal}
    )
    figure(
        "sparsity_log_weights",
        log_weights(found.edges, found.share.tolist(), found.normal.tolist()),
        sentence=f"{percent(found.misfit)} of the keys of head {state.layer}.{state.head} lie elsewhere than the "
        f"fitted normal says. {log_normal_sentence(fitted)}",
        note=f"{fitted.rows} of {len(sampled.position)} sampled rows: those that see {lognormal.FEWEST_KEYS} keys or "
        "more, all with a weight above 0. Every row has a normal of its own spread; drawn is their mean. Dashed: "
        "uniform attention.",
        table=table,
        terms=("score_sigma", "entropy_misfit", "log_normal_misfit"),
    )

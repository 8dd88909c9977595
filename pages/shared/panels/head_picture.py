"""The picture that was read, with the attention from one token, or of all tokens, to its patches drawn over it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.patches import SIDE, Patches, kept_picture, patches_of
from backend.store import Analysis
from pages.shared.address import select
from pages.shared.charts.picture_heat import PICKED, picture_heat
from pages.shared.panels.figure import figure
from pages.shared.panels.unit_sentences import named, share
from pages.shared.view_state import ViewState

KEY = "head_picture"
ALL = -1  # in place of a token: the mean over all of them
NONE = "This analysis read no picture, or one whose tokens are no grid of patches."
NOT_KEPT = "The picture itself was not kept: it is only where the run was started with keeping it."
UNSEEN = "It sees no patch of the picture: it stands before it."


def has_picture(analysis: Analysis) -> bool:
    return patches_of(analysis) is not None


def head_picture(state: ViewState, analysis: Analysis) -> None:
    """Draws choice, picture, sentence and table."""
    patches = patches_of(analysis)
    if patches is None or state.kind != SIDE:
        st.text(NONE)
        return
    labels = [token.label for token in analysis.tokens_list() if token.side == SIDE]
    exact = state.head in analysis.exact_heads(state.layer, state.kind)
    token = token_of(state, patches, len(labels)) if exact else ALL
    if exact:
        token_choice(token, labels)
    else:
        st.text("Only pooled maps were kept of this head: shown is what each patch gets from all tokens, on average.")
    if token == ALL:
        weights, visible = received(analysis, state, patches)
    else:
        weights, visible = given(analysis, state, patches, token)
    picture = kept_picture(analysis)
    chart = picture_heat(
        np.where(visible, weights, 0.0).reshape(patches.rows, patches.columns),
        visible.reshape(patches.rows, patches.columns),
        picture=picture,
        palette=state.palette,
        chosen=patches.place(token),
    )
    figure(
        KEY,
        chart,
        sentence=sentence(weights, visible, patches, token, labels),
        table=table_of(weights, visible, patches),
        terms=("patch_attention",),
        note=None if picture else NOT_KEPT,
        on_pick=take_patch if exact else None,
        pick=PICKED if exact else None,
        own_size=True,
    )


def token_of(state: ViewState, patches: Patches, count: int) -> int:
    """The marked row of the map; else all tokens of a picture alone, or the last token of a text."""
    if state.more("of") == "all":
        return ALL
    if state.query is not None:
        return state.query
    return ALL if patches.stop == count else count - 1


def token_choice(token: int, labels: list[str]) -> None:
    st.session_state[KEY + "_token"] = token
    st.selectbox(
        "Attention from",
        [ALL, *range(len(labels))],
        format_func=lambda at: "all tokens, on average" if at == ALL else named(at, labels[at]),
        key=KEY + "_token",
        help="A click on a patch chooses it, a click on a row of the map or on a word does so too.",
        on_change=take_token,
    )


def take_token() -> None:
    token = st.session_state[KEY + "_token"]
    select(**({"of": "all"} if token == ALL else {"query": token, "of": None}))


def take_patch() -> None:
    """A patch that was clicked is the token whose attention is shown next."""
    points = st.session_state[f"{KEY}_chart"].selection.get(PICKED, [])
    grid = st.session_state.get(KEY + "_grid")
    if grid is not None and points and all(isinstance(points[0].get(name), int) for name in ("row", "column")):
        select(query=grid[0] + points[0]["row"] * grid[1] + points[0]["column"], of=None)


def given(analysis: Analysis, state: ViewState, patches: Patches, token: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of one row on the patches, and which it sees: [rows * columns]."""
    st.session_state[KEY + "_grid"] = (patches.start, patches.columns)
    place = (state.layer, state.head, slice(token, token + 1), slice(patches.start, patches.stop))
    return analysis.map(*place, kind=state.kind)[0], analysis.visible(*place, kind=state.kind)[0]


def received(analysis: Analysis, state: ViewState, patches: Patches) -> tuple[np.ndarray, np.ndarray]:
    """What the patches get, as the mean over the rows that see them: [rows * columns]."""
    st.session_state[KEY + "_grid"] = (patches.start, patches.columns)
    table = analysis.keys(kind=state.kind, layer=state.layer, head=state.head)
    means = np.asarray(table["received_mean"].to_numpy(zero_copy_only=False), float)[patches.start : patches.stop]
    return means, np.isfinite(means)


def sentence(weights: np.ndarray, visible: np.ndarray, patches: Patches, token: int, labels: list[str]) -> str:
    """How much goes to the picture, and where most of it lies."""
    who = "all tokens, on average" if token == ALL else named(token, labels[token], 20)
    if not visible.any():
        return f"Attention from {who}. {UNSEEN}"
    top = int(np.where(visible, weights, -1.0).argmax())
    row, column = divmod(top, patches.columns)
    best = f"most on patch {row},{column} (counted from 0): {share(float(weights[top]))}"
    if token == ALL:
        return f"Of the attention of all tokens, on average, {best}."
    return f"{share(float(weights[visible].sum()))} of the attention of {who} is on the picture, {best}."


def table_of(weights: np.ndarray, visible: np.ndarray, patches: Patches) -> pa.Table:
    """One line per patch; null where it is not visible."""
    rows, columns = np.divmod(np.arange(len(weights)), patches.columns)
    return pa.table(
        {
            "token": pa.array(range(patches.start, patches.stop), pa.int64()),
            "row": pa.array(rows, pa.int64()),
            "column": pa.array(columns, pa.int64()),
            "weight": pa.array([float(v) if s else None for v, s in zip(weights, visible, strict=True)], pa.float64()),
        }
    )

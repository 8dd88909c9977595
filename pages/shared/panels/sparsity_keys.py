"""Keys and dimensions: how few directions are enough, how steady attention is, whether near keys would do."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import streamlit as st

from backend.map_sizes import SIDES, map_sizes
from backend.sparsity import key_rank, local, successive
from backend.sparsity.rows import Rows, read_head, read_note
from backend.store import Analysis, Study
from backend.studies.key_dimensions import STUDY, Parameters
from pages.shared.charts.layer_head_heat import layer_head_heat
from pages.shared.charts.named_lines import named_lines
from pages.shared.panels.figure import figure
from pages.shared.panels.page_study import page_study
from pages.shared.panels.readable import readable
from pages.shared.panels.sparsity_data import windows_of_heads
from pages.shared.panels.sparsity_sentences import percent
from pages.shared.view_state import ViewState

LAST = 64  # rows that are followed step by step


def sparsity_keys(state: ViewState, analysis: Analysis) -> None:
    """Draws the part."""
    if state.head not in analysis.exact_heads(state.layer, state.kind):
        st.text("The queries and keys of this head were not kept, so their dimensions cannot be shown.")
        return
    kept = analysis.kept(state.layer, state.head, kind=state.kind)
    rows, _ = read_head(analysis, state.kind, state.layer, state.head)
    left, right = st.columns(2, gap="medium")
    if kept.dense is None:
        query, key = kept.query[0, 0].double().numpy(), kept.key[0, 0].double().numpy()
        score, size = analysis.score(state.layer, state.kind), map_sizes(analysis)[state.kind][state.layer]
        own, on = query[rows.numbers(size, score.causal)], read_note(analysis, state.kind, state.layer)
        with left, readable():
            dimensions(state, rows, own, key, on)
        with right, readable():
            predicted(state, rows, own, key, score.scale, on)
    else:
        st.text("Only the weights of this family were stored, so its keys have no dimensions here.")
    left, right = st.columns(2, gap="medium")
    with left, readable():
        steady(state, rows)
    with right, readable():
        window(state, analysis)
    with readable():
        before_and_weights(state, analysis)


def dimensions(state: ViewState, rows: Rows, query: np.ndarray, key: np.ndarray, on: str) -> None:
    """Variance by directions, and the strongest keys that scores of so many directions find. on: measured rows."""
    found = key_rank.components(key)
    width = len(found.variance)
    explained = found.explained
    if not np.isfinite(explained).all():
        st.text("All keys of this head are the same, so they take no dimension.")
        return
    sizes = sorted({max(1, round(width * share)) for share in np.linspace(0.05, 1, 16)})
    recall = key_rank.score_recall(rows, query, key, found, sizes)
    points = [{"name": "variance of the keys", "x": at + 1, "y": float(y)} for at, y in enumerate(explained)]
    points += [
        {"name": "strongest keys found", "x": size, "y": value}
        for size, value in zip(sizes, recall, strict=True)
        if math.isfinite(value)
    ]
    half = next((size for size, value in zip(sizes, recall, strict=True) if value >= 0.9), None)
    said = (
        f"Key head of {state.layer}.{state.head}: {found.rank(0.9)} of {width} directions hold 90 % of the variance, "
    )
    said += f"{found.rank(0.99)} hold 99 %."
    if half is not None:
        said += f" Scores of {half} directions find 90 % of each row's strongest tenth of keys."
    figure(
        "sparsity_dimensions",
        named_lines(points, x="directions", y="share", y_format="%", top=1,
                    baseline=[{"x": 0, "y": 0}, {"x": width, "y": 1}]),
        sentence=said,
        note=on + "Keys as attention gets them, after the rotary embedding; before it: the study below.",
        table=pa.Table.from_pylist(points),
        terms=("key_rank", "score_recall"),
    )  # fmt: skip


def predicted(state: ViewState, rows: Rows, query: np.ndarray, key: np.ndarray, scale: float, on: str) -> None:
    """QAdA: can the need for far keys be seen from the near ones?"""
    window = min(local.WINDOW, max(2, len(key) // 4))
    found = local.predict(rows, query, key, scale, window=window)
    if found is None:
        st.text("No row of this head sees two keys outside its neighbourhood.")
        return
    points = [
        {"name": name, "x": int(x), "y": float(y)}
        for name, values in (("true", found.true), ("predicted from near keys", found.predicted))
        for x, y in zip(found.position, values, strict=True)
    ][:4000]
    said = f"Near keys (the last {window} and the first {local.FIRST}) hold {percent(float(found.true.mean()))} of the "
    said += f"attention of head {state.layer}.{state.head} on average; predicted without the far keys: "
    said += (
        f"{percent(float(found.predicted.mean()))}. Rows on the same side of {found.tau:g}: {percent(found.agreement)}"
    )
    said += "." if found.auroc is None else f"; AUROC {found.auroc:.2f}."
    figure(
        "sparsity_local",
        named_lines(points, x="query", y="near keys hold", y_format="%", top=1),
        sentence=said,
        note=on + f"The threshold {local.TAU:g} is an unverified default. The sum over far keys is missed by "
        f"{float(found.residual.mean()):+.2f} nats on average. The prediction takes scaled products for scores: "
        "a softcap or bias of the model is not in it, but is in what near keys really hold.",
        table=pa.Table.from_pylist(points),
        terms=("qada",),
    )


def steady(state: ViewState, rows: Rows) -> None:
    """How little the last rows differ from the ones before them."""
    last = Rows(rows.weights[-LAST - 1 :], rows.visible[-LAST - 1 :], rows.position[-LAST - 1 :])
    found = successive.steps(last)
    if not len(found.position):
        st.text("There are no two rows that follow each other.")
        return
    named = {
        "same keys (cosine)": found.same_place,
        "same distances (cosine)": found.same_distance,
        "strongest keys shared": found.overlap,
        "kept by the last step's strongest": found.recovered,
    }
    points = [
        {"name": name, "x": int(x), "y": float(y)}
        for name, values in named.items()
        for x, y in zip(found.position, values, strict=True)
    ]
    same, moved = float(found.same_place.mean()), float(found.same_distance.mean())
    how = "stays on its keys" if same >= moved else "moves on with the text"
    figure(
        "sparsity_steps",
        named_lines(points, x="query", y="share or cosine", top=1),
        sentence=f"From one row to the next, head {state.layer}.{state.head} {how}: cosine {same:.2f} key by key, "
        f"{moved:.2f} moved on by one. The strongest tenth of the row before would keep "
        f"{percent(float(found.recovered.mean()))} of the attention.",
        note=f"The last {len(found.position)} rows.",
        table=pa.Table.from_pylist(points),
        terms=("temporal_similarity",),
    )


def window(state: ViewState, analysis: Analysis) -> None:
    """For how many rows the neighbourhood is enough, every head."""
    near, rows = windows_of_heads(analysis, state.kind)
    if not rows:
        st.text("No exact map of a head was kept.")
        return
    layers = sorted({row["layer"] for row in rows})
    grid = np.full((len(layers), 1 + max(row["head"] for row in rows)), np.nan)
    for row in rows:
        grid[layers.index(row["layer"]), row["head"]] = row["local_suffices"]
    enough = sum(row["local_suffices"] >= 0.99 for row in rows)
    figure(
        "sparsity_suffices",
        layer_head_heat(
            layers, grid, title="near keys are enough", selected=(state.layer, state.head),
            palette=state.palette,
        ),
        sentence=f"For {enough} of {len(rows)} heads the last {near} keys and the first {local.FIRST} hold 99 % of the "
        "attention in at least 99 % of the rows.",
        note=read_note(analysis, state.kind, state.layer) or None,
        table=pa.Table.from_pylist(rows),
        terms=("local_suffices",),
    )  # fmt: skip


def before_and_weights(state: ViewState, analysis: Analysis) -> None:
    """Ranks before the rotary embedding and of the weights: needs the model."""
    place = st.container()
    chosen = None
    if state.kind == "self":
        tokens = [token for token in analysis.tokens_list() if token.side == SIDES[state.kind][1]]
        subject = "".join(token.text for token in tokens[:40])
        chosen = Parameters(tuple(token.token_id for token in tokens), subject)
    study = page_study(state, STUDY, chosen, analysis.info)
    if study is not None:
        with place, readable():
            ranks(state, study)


def ranks(state: ViewState, study: Study) -> None:
    """What the study found."""
    rows = study.table("ranks").to_pylist()
    layers = sorted({row["layer"] for row in rows})
    points = []
    for what in dict.fromkeys(row["what"] for row in rows):
        for layer in layers:
            own = [r["rank_90"] for r in rows if (r["what"], r["layer"]) == (what, layer) and r["rank_90"] is not None]
            if own:
                points.append({"name": what, "x": layer, "y": sum(own) / len(own)})
    mean = {name: np.mean([p["y"] for p in points if p["name"] == name]) for name in {p["name"] for p in points}}
    said = f"Directions for 90 % of the variance, mean over layers: keys {mean['keys']:.1f}"
    said += f", before the rotary embedding {mean['keys before']:.1f}" if "keys before" in mean else ""
    said += f", queries {mean['queries']:.1f}, values {mean['values']:.1f} of {rows[0]['dimensions']}."
    weights = study.table("weights").to_pylist()
    if weights:
        low = sum(row["effective_qk"] < row["dimensions"] / 4 for row in weights)
        said += f" Weights: {low} of {len(weights)} heads have an effective rank of W_Q W_K below a quarter of their "
        said += "dimensions."
    note = "" if "keys before" in mean else "The rotary embedding of this model is not known here. "
    figure(
        "sparsity_ranks",
        named_lines(points, x="layer", y="directions for 90 %", y_format=".0f"),
        sentence=said,
        note=note + "Scores before the softmax have at most the rank of the head's dimensions; the map itself may have "
        "more.",
        table=study.table("weights") if weights else study.table("ranks"),
        terms=("key_rank", "weight_rank"),
    )

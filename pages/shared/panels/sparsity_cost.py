"""What would it cost? Budget against damage, the text that is written, and what is saved by formula."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import streamlit as st

from backend import policies
from backend.errors import HeadwaterError
from backend.map_sizes import SIDES
from backend.sparsity.costs import costs
from backend.sparsity.head_masks import CHOICES
from backend.sparsity.patterns import WORDS
from backend.sparsity.stored_layers import not_counted
from backend.store import Analysis, Study
from backend.studies.policy_sweep import STUDY, Parameters
from pages.shared.address import select
from pages.shared.charts.along_text import along_text
from pages.shared.charts.layer_head_heat import layer_head_heat
from pages.shared.charts.pareto import PICKED, pareto
from pages.shared.panels.figure import figure
from pages.shared.panels.page_study import page_study
from pages.shared.panels.readable import readable
from pages.shared.panels.sparsity_policy_data import kept
from pages.shared.panels.sparsity_sentences import percent
from pages.shared.view_state import ViewState

PARETO = "sparsity_pareto"
MOST_DRAWN = 8  # lines of one picture
PREDICTED = (10, 25, 50)  # percent, of the picture that needs no run
KEY = "headwater_sparsity_cost_"
PLAIN = ["snapkv", "h2o", "streaming_llm", "expected_attention", "random", "oracle"]
BUDGETS = [0.05, 0.1, 0.25, 0.5, 0.75]
LENGTHS = (1, 10_000_000)


def sparsity_cost(state: ViewState, analysis: Analysis) -> None:
    """Draws the part: the study of the address, else what can be predicted without a run; below, a run's choices."""
    pictures = st.container()
    with readable():
        study = page_study(state, STUDY, parameters(analysis, state.kind), analysis.info)
    with pictures, readable():
        if study is None:
            predicted(state, analysis)
        else:
            found(state, study, analysis)
    with readable():
        savings(state, analysis)


def title_of(choice: str) -> str:
    """A policy or a pattern in words."""
    shelf = policies.all()
    return shelf[choice].title if choice in shelf else f"pattern: {WORDS.get(choice, choice)}"


def parameters(analysis: Analysis, kind: str) -> Parameters | None:
    """Draws the choices of a run."""
    if kind != "self":
        st.text("Runs with less are made with decoder models that have one stack of layers.")
        return None
    shelf = policies.all()
    with st.container(horizontal=True, gap="small"):
        names = st.multiselect("Policies", list(shelf), PLAIN, format_func=title_of, key=KEY + "policies")
        patterns = st.multiselect(
            "Patterns", CHOICES, [], format_func=lambda one: WORDS.get(one, one), key=KEY + "maps"
        )
        budgets = st.multiselect("Kept", BUDGETS, [0.1, 0.25, 0.5], format_func=percent, key=KEY + "budgets")
    tokens = [token for token in analysis.tokens_list() if token.side == SIDES[kind][1]]
    try:
        return Parameters(
            token_ids=tuple(token.token_id for token in tokens),
            subject="".join(token.text for token in tokens[:40]),
            policies=tuple(names),
            patterns=tuple(patterns),
            budgets=tuple(sorted(budgets)),
        )
    except HeadwaterError as error:
        st.text(str(error))
        return None


def predicted(state: ViewState, analysis: Analysis) -> None:
    """The prediction alone, from the stored maps."""
    rows = []
    for budget in PREDICTED:
        for name, one in kept(analysis, state.kind, budget).outcomes.items():
            rows.append({"choice": name, "title": title_of(name), "budget": budget / 100, "kept": one.kept_share,
                         "kl": None, "prediction": one.divergence})  # fmt: skip
    if not rows:
        st.text("No policy could be computed on this analysis.")
        return
    best = min((row for row in honest(rows) if row["budget"] == 0.25), key=lambda row: row["prediction"])
    figure(
        PARETO,
        pareto([row for row in rows if row["choice"] in few(rows)]),
        sentence=f"Predicted only: with 25 % of the keys, {best['title']} loses least of those that can be built, "
        f"{best['prediction']:.3f} nats a row and head. Run the model below to see what its answers really lose.",
        note="The prediction is -ln of the retained attention: the divergence of a head's rows, not of the answer.",
        table=pa.Table.from_pylist(rows),
        terms=("predicted_damage", "retained_mass"),
    )


def few(rows: list[dict]) -> list[str]:
    """The policies that are drawn: random, the oracle, and the best six by their prediction; the table has all."""
    totals: dict[str, float] = {}
    for row in rows:
        totals[row["choice"]] = totals.get(row["choice"], 0.0) + row["prediction"]
    fixed = [name for name in ("oracle", "random") if name in totals]
    return fixed + sorted((name for name in totals if name not in fixed), key=totals.get)[: MOST_DRAWN - len(fixed)]


def found(state: ViewState, study: Study, analysis: Analysis) -> None:
    """What a sweep found."""
    rows = [{**row, "title": title_of(row["choice"])} for row in study.table("runs").to_pylist()]
    ran = [row for row in rows if row["kl"] is not None]
    if not ran:
        st.text(" ".join({row["note"] for row in rows if row["note"]}) or "No run of this study was possible.")
        return
    own = chosen(state, ran)
    left, right = st.columns([0.58, 0.42], gap="medium")
    with left:
        figure(
            PARETO,
            pareto(ran, selected=(own["choice"], own["budget"])),
            sentence=pareto_sentence(ran),
            note="Solid: measured by running the model. Dotted: -ln of the retained attention, which costs no run. The "
            "oracle and the patterns are made of the very maps that they are to replace.",
            table=study.table("runs"),
            terms=("damage", "predicted_damage", "same_first", "output_error", "retained_mass"),
            on_pick=_take_run,
            pick=PICKED,
        )
    with right:
        texts(own)
    details(state, study, analysis, own)


def chosen(state: ViewState, rows: list[dict]) -> dict:
    """The run of the address, else the first at a quarter."""
    wanted = state.more("run").partition(":")
    for row in rows:
        if (row["choice"], f"{row['budget']:g}") == (wanted[0], wanted[2]):
            return row
    return min(rows, key=lambda row: (row["choice"] == "oracle", abs(row["budget"] - 0.25)))


def _take_run() -> None:
    points = st.session_state[f"{PARETO}_chart"].selection.get(PICKED, [])
    if points and isinstance(points[0].get("budget"), int | float):
        select(run=f"{points[0].get('choice')}:{points[0]['budget']:g}")


def honest(rows: list[dict]) -> list[dict]:
    """Those that can be built: policies that do not look ahead. Patterns are made of the map that they replace."""
    shelf = policies.all()
    return [row for row in rows if row["choice"] in shelf and not shelf[row["choice"]].looks_ahead]


def pareto_sentence(rows: list[dict]) -> str:
    """What costs least, and how far the prediction was off."""
    built = honest(rows) or rows
    budget = min({row["budget"] for row in built}, key=lambda one: abs(one - 0.25))
    best = min((row for row in built if row["budget"] == budget), key=lambda row: row["kl"])
    text = f"With {percent(budget)} kept, {best['title']} does least damage"
    text += ": " if built is rows else " of those that can be built: "
    text += f"{best['kl']:.3g} nats, the same first word in {percent(best['same_first'])} of the judged tokens"
    if best["loss"] is not None:
        text += f", loss {best['loss']:.3f} beside {best['loss_dense']:.3f}"
    return text + "."


def texts(own: dict) -> None:
    """The generated text side by side, and the bytes."""
    st.text(f"{own['title']} with {percent(own['budget'])} kept")
    dense, less = st.columns(2, gap="small")
    for column, words, text in ((dense, "Dense", own["text_dense"]), (less, "With less", own["text"])):
        with column, st.container(border=True):
            st.text(words)
            st.text("not written" if text is None else text or "nothing: the model ended the text at once")
    st.text(
        f"Damage {own['kl']:.3g} nats (predicted {own['prediction']:.3g}); behind the last token {own['kl_last']:.3g}. "
        f"The most probable word stays in {percent(own['same_first'])} of the judged tokens."
    )
    share = own["cache_bytes"] / own["cache_bytes_dense"]
    formula = own["cache_bytes_formula"]
    st.text(
        f"Keys and values after the text: {own['cache_bytes'] / 1e6:,.2f} MB measured"
        + (f", {formula / 1e6:,.2f} MB by formula" if formula is not None else "")
        + f", {percent(share)} of {own['cache_bytes_dense'] / 1e6:,.2f} MB (the judged tokens are in the cache too)."
    )
    if own["note"]:
        st.text(own["note"])


def details(state: ViewState, study: Study, analysis: Analysis, own: dict) -> None:
    """Where in the text the damage is, and in which heads the output moved."""
    where = {name: own[name] for name in ("kind", "choice", "budget")}
    judges = study.table("judges", **where).to_pylist()
    labels = [token.label for token in analysis.tokens_list()]
    same = [row["token_id"] for row in analysis.tokens().to_pylist()] == list(study.info["parameters"]["token_ids"])
    rows = [
        {"position": row["position"], "label": labels[row["position"]] if same else "", "value": row["kl"]}
        for row in judges
    ]
    worst = max(rows, key=lambda row: row["value"])
    left, right = st.columns([0.55, 0.45], gap="medium")
    with left:
        figure(
            "sparsity_judges",
            along_text(rows, title="damage (nats)"),
            sentence=f"Most damage is behind token {worst['position']} {worst['label']}: {worst['value']:.3g} nats.",
            note=None if same else "This study read another text than the open analysis.",
            table=pa.Table.from_pylist(judges),
            terms=("damage",),
        )
    heads = study.table("heads", **where).to_pylist()
    measure = "output_error" if heads and heads[0]["output_error"] is not None else "retained"
    layers = sorted({row["layer"] for row in heads})
    grid = np.full((len(layers), 1 + max(row["head"] for row in heads)), np.nan)
    for row in heads:
        grid[layers.index(row["layer"]), row["head"]] = row[measure]
    with right:
        figure(
            "sparsity_cost_heads",
            layer_head_heat(layers, grid, title=measure.replace("_", " "), palette=state.palette),
            table=pa.Table.from_pylist(heads),
            terms=(("output_error",) if measure == "output_error" else ("retained_mass",)),
        )


def savings(state: ViewState, analysis: Analysis) -> None:
    """Memory and operations at a length of one's own."""
    attended = [layer.layer for layer in analysis.layers(state.kind) if layer.attention == "softmax"]
    if state.kind == "cross" or not analysis.score(attended[0], state.kind).causal:
        st.text("No cache grows with this text, so no memory is saved; a pattern saves the operations that it skips.")
        return
    text = state.more("length", "32768")
    length = min(max(int(text), LENGTHS[0]), LENGTHS[1]) if text.isdecimal() and len(text) < 9 else 32_768
    key = KEY + "length"
    st.session_state[key] = length
    st.number_input("Tokens of your own text", *LENGTHS, step=1024, key=key, on_change=_take_length, width=240)
    layers = analysis.layers(state.kind)
    rows = []
    for share in (1.0, 0.75, 0.5, 0.25, 0.1, 0.05):
        one = costs(layers, length, share)
        rows.append(
            {
                "kept": percent(share),
                "cache_MB": one.cache_bytes / 1e6,
                "decode_MFLOP": one.decode_operations / 1e6,
                "prefill_GFLOP": one.prefill_operations / 1e9,
            }
        )
    full, quarter = costs(layers, length), costs(layers, length, 0.25)
    st.text(
        f"By formula, {length:,} tokens of this model in 16-bit numbers take {full.cache_bytes / 1e6:,.0f} MB of "
        f"cache, {quarter.cache_bytes / 1e6:,.0f} MB with a quarter kept; attention of one more token "
        f"{full.decode_operations / 1e6:,.0f} and {quarter.decode_operations / 1e6:,.0f} million operations."
    )
    others = not_counted(analysis, state.kind)
    figure("sparsity_savings", None, note=others, table=pa.Table.from_pylist(rows), terms=("cache_bytes",))


def _take_length() -> None:
    select(length=str(int(st.session_state[KEY + "length"])))

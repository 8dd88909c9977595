"""Heads that must stay dense, and patterns over a set of prompts."""

from itertools import pairwise

import numpy as np
import pytest

from backend.errors import Cancelled, Refused
from backend.models import LoadedModel
from backend.store import Library
from backend.studies import dense_heads, key_dimensions, prompt_patterns, run_study
from tests.backend.tiny import build, ids
from tests.backend.tiny_tokenizers import byte_level, wordpiece

TOKENS = tuple(ids(28)[0].tolist())


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    parameters = dense_heads.Parameters(token_ids=TOKENS, policy="window", budget=0.3)
    model = LoadedModel.wrap(build("llama"))
    return run_study(dense_heads.STUDY, model, parameters, library=Library(tmp_path_factory.mktemp("library")))


def test_every_key_head_is_shortened_alone_and_ranked(dense):
    heads = dense.table("heads").to_pylist()
    assert [(row["layer"], row["key_head"]) for row in heads] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    ranked = sorted(heads, key=lambda row: row["rank"])
    assert [row["kl"] for row in ranked] == sorted((row["kl"] for row in heads), reverse=True)
    assert sorted(row["rank"] for row in heads) == [0, 1, 2, 3] and all(row["prediction"] > 0 for row in heads)


@pytest.mark.parametrize("order", dense_heads.ORDERS)
def test_the_curve_ends_where_nothing_is_dropped(dense, order):
    curve = sorted(dense.table("curve", order=order).to_pylist(), key=lambda row: row["dense"])
    assert curve[0]["dense"] == 0 and curve[-1]["dense"] == 1
    assert curve[-1]["kl"] < 1e-8 and curve[-1]["kept"] == 1 and curve[0]["kl"] > 0.01
    assert curve[0]["kept"] == pytest.approx(6 / 21)


def test_the_worst_heads_stay_dense_first(dense):
    """With half of the heads dense, the loss of the others is less than with none, in the greedy order."""
    damage = {row["dense"]: row["kl"] for row in dense.table("curve", order="damage").to_pylist()}
    assert damage[0.5] < damage[0.0]


def test_the_first_heads_are_chosen_together(dense):
    """Each step leaves no more than the others it could have taken, which the order by damage alone is one of."""
    steps = dense.table("steps").to_pylist()
    assert [row["step"] for row in steps] == [0, 1, 2, 3] and [row["candidates"] for row in steps] == [4, 3, 2, 1]
    assert sorted((row["layer"], row["key_head"]) for row in steps) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for before, row in pairwise(steps):
        assert row["kl_before"] == before["kl"]
    assert steps[-1]["kl"] < 1e-8
    greedy, alone = ({r["dense"]: r["kl"] for r in dense.table("curve", order=o).to_pylist()}
                     for o in ("greedy", "damage"))  # fmt: skip
    assert steps[0]["kl_before"] == greedy[0.0] == alone[0.0]
    assert greedy[0.5] == steps[1]["kl"] and greedy[0.25] == steps[0]["kl"] <= alone[0.25]


def test_a_step_takes_the_head_that_helps_most_with_those_before_it(monkeypatch):
    """Two heads that only help together with the first: the one with less damage alone wins the second step."""
    alone = [{"layer": 0, "key_head": at, "kl": kl} for at, kl in enumerate((3.0, 2.0, 1.0))]
    left = {(): 9.0, (0,): 5.0, (1,): 6.0, (2,): 8.0, (0, 1): 4.0, (0, 2): 1.0}
    monkeypatch.setattr(dense_heads, "with_dense", lambda _m, _t, _o, dense: {"kl": left[tuple(h for _, h in dense)]})
    first = dense_heads.one_step(None, None, None, alone, [])
    assert (first["key_head"], first["kl_before"], first["kl"], first["candidates"]) == (0, 9.0, 5.0, 3)
    second = dense_heads.one_step(None, None, None, alone, [first])
    assert (second["key_head"], second["rank"], second["kl_before"], second["kl"]) == (2, 2, 5.0, 1.0)
    assert dense_heads.ranked_by("greedy", None, alone, [first, second]) == [(0, 0), (0, 2), (0, 1)]
    assert dense_heads.ranked_by("damage", None, alone, [first, second]) == [(0, 0), (0, 1), (0, 2)]


@pytest.fixture(scope="module")
def texted():
    return LoadedModel.wrap(build("llama", vocab_size=400), byte_level())


def test_patterns_over_prompts(texted, tmp_path):
    parameters = prompt_patterns.Parameters(samples=3, length=40, policies=("window", "random"), keep=0.5)
    study = run_study(prompt_patterns.STUDY, texted, parameters, library=Library(tmp_path))
    heads, samples = study.table("heads").to_pylist(), study.table("samples").to_pylist()
    assert len(heads) == 16 and len(samples) == 48
    for row in heads:
        own = [one for one in samples if (one["layer"], one["head"]) == (row["layer"], row["head"])]
        assert row["prompts"] == 3 and 1 / 3 <= row["agreement"] <= 1
        assert sum(one["pattern"] == row["pattern"] for one in own) == round(3 * row["agreement"])
        assert row["retained"] == pytest.approx(sum(one["retained"] for one in own) / 3)
        assert row["share_95_spread"] >= 0
    found = study.table("policies").to_pylist()
    assert {row["policy"] for row in found} == {"window", "random"}
    assert all(row["least"] <= row["retained"] <= row["most"] and row["prompts"] == 3 for row in found)


def test_an_encoder_has_patterns_and_no_policies(tmp_path):
    model = LoadedModel.wrap(build("bert", vocab_size=400), wordpiece())
    parameters = prompt_patterns.Parameters(samples=2, length=20)
    study = run_study(prompt_patterns.STUDY, model, parameters, library=Library(tmp_path))
    assert study.table("heads").num_rows == 8 and study.table("policies").num_rows == 0


def test_dimensions_are_measured_layer_by_layer_and_carried_on(tmp_path):
    model, parameters = LoadedModel.wrap(build("llama")), key_dimensions.Parameters(token_ids=TOKENS)
    assert key_dimensions.STUDY.plan(model, parameters).runs == 2
    told, library = [], Library(tmp_path)
    with pytest.raises(Cancelled):
        run_study(key_dimensions.STUDY, model, parameters, library=library,
                  progress=lambda step, done, runs, left: told.append((done, runs)),
                  cancel=lambda: bool(told) and told[-1] == (1, 2))  # fmt: skip
    assert told == [(0, 2), (1, 2)] and model.model not in key_dimensions._texts, "nothing of the text stays in memory"
    study = run_study(key_dimensions.STUDY, model, parameters, library=library)
    whole = run_study(key_dimensions.STUDY, model, parameters, library=Library(tmp_path / "again"))
    for table in key_dimensions.TABLES:
        assert study.table(table).to_pylist() == whole.table(table).to_pylist()
    assert {row["layer"] for row in study.table("recall").to_pylist()} == {0, 1}


def test_dimensions_of_keys_and_weights(tmp_path):
    model = LoadedModel.wrap(build("llama"))
    parameters = key_dimensions.Parameters(token_ids=TOKENS)
    study = run_study(key_dimensions.STUDY, model, parameters, library=Library(tmp_path))
    ranks = study.table("ranks").to_pylist()
    assert {row["what"] for row in ranks} == {"keys before", "keys", "queries", "values"} and len(ranks) == 16
    assert all(1 <= row["rank_90"] <= row["rank_95"] <= row["rank_99"] <= 8 for row in ranks)
    recall = study.table("recall").to_pylist()
    assert all(row["recall"] == pytest.approx(1) for row in recall if row["axes"] == 8)
    attention = model.model.model.layers[1].self_attn
    product = attention.q_proj.weight.T[:, 16:24].double() @ attention.k_proj.weight[:8].double()
    row = study.table("weights", layer=1, head=2).to_pylist()[0]
    singular = np.linalg.svd(product.detach().numpy(), compute_uv=False)
    share = singular[:8] / singular[:8].sum()
    assert row["rank_qk"] == 8 == row["dimensions"] and row["rank_ov"] == 8
    assert row["effective_qk"] == pytest.approx(float(np.exp(-(share * np.log(share)).sum())))


def test_dimensions_of_a_model_without_rotary_embedding_or_plain_matrices(tmp_path):
    parameters = key_dimensions.Parameters(token_ids=TOKENS)
    study = run_study(key_dimensions.STUDY, LoadedModel.wrap(build("gpt2")), parameters, library=Library(tmp_path))
    assert "keys before" not in study.table("ranks")["what"].to_pylist() and study.table("weights").num_rows == 0


@pytest.mark.parametrize(
    "given, said",
    [
        ({"samples": 0}, "samples: expected a whole number from 1"),
        ({"length": 5000}, "length: expected a whole number from 2"),
        ({"budget": 2}, "expected 0 to 1"),
        ({"policies": ("nobody",)}, "policies: expected some of"),
    ],
)
def test_choices_that_make_no_sense_are_refused(given, said):
    with pytest.raises(Refused, match=said):
        prompt_patterns.Parameters(**given)


def test_what_does_not_fit_is_refused_before_anything_runs(texted):
    with pytest.raises(Refused, match="the set has 2"):
        prompt_patterns.STUDY.plan(texted, prompt_patterns.Parameters(samples=3, texts=("a", "b"), length=9))
    with pytest.raises(Refused, match="without a tokenizer"):
        prompt_patterns.STUDY.plan(LoadedModel.wrap(build("llama")), prompt_patterns.Parameters(length=9))
    with pytest.raises(Refused, match="no key-value cache"):
        dense_heads.STUDY.plan(LoadedModel.wrap(build("bert")), dense_heads.Parameters(token_ids=TOKENS))
    with pytest.raises(Refused, match="policy: expected one of"):
        dense_heads.Parameters(policy="nobody")

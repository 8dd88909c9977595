"""The sink percentage of a model: closed forms, the model's own maps, samples and intervals."""

import numpy as np
import pytest
import torch

from backend.errors import Refused
from backend.models import LoadedModel
from backend.sinks.percentage import sink_percentage
from backend.studies import run_study
from backend.studies.sink_percentage import SETS, STUDY, Parameters, texts_of
from tests.backend.eager import eager_maps
from tests.backend.tiny import build
from tests.backend.tiny_tokenizers import byte_level

FAST = ("random", "repeated")


def without_positions():
    """A tiny Llama whose rotary embedding turns nothing: with identical tokens every score of a row is the same."""
    model = build("llama")
    model.model.rotary_emb.inv_freq.zero_()
    return LoadedModel.wrap(model)


def test_identical_tokens_without_positions_have_a_sink_percentage_of_zero():
    study = run_study(STUDY, without_positions(), Parameters(sets=("repeated",), samples=9))
    (summary,) = study.table("summary").to_pylist()
    assert summary["percent"] == 0.0 and (summary["low"], summary["high"]) == (0.0, 0.0)
    assert summary["uniform"] == pytest.approx(0.074123, abs=1e-6)
    importance = study.table("heads")["importance"].to_numpy()
    assert importance == pytest.approx(np.full(len(importance), summary["uniform"]), abs=1e-6)


def test_the_percentage_is_that_of_the_models_own_maps():
    parameters = Parameters(sets=FAST, samples=3, length=20, epsilon=0.2)
    model = LoadedModel.wrap(build("llama"))
    study = run_study(STUDY, model, parameters)
    rows = {(r["set"], r["sample"], r["layer"], r["head"]): r["importance"] for r in study.table("samples").to_pylist()}
    for row in study.table("summary").to_pylist():
        shares = []
        for sample in range(3):
            (ids,) = texts_of(model, parameters, row["set"], [sample])
            for layer, maps in enumerate(eager_maps(build("llama"), {"input_ids": torch.tensor([ids])})):
                own = maps[0, :, :, 0].double().mean(1)
                shares.append((own > 0.2).double().mean().item())
                for head in range(8):
                    assert rows[row["set"], sample, layer, head] == pytest.approx(own[head].item(), abs=1e-5)
        assert row["percent"] == pytest.approx(100 * np.mean(shares), abs=1e-9)


def test_a_batch_gives_what_single_texts_give():
    model = LoadedModel.wrap(build("gemma2"))
    many = run_study(STUDY, model, Parameters(sets=("random",), samples=10, length=12))
    one = run_study(STUDY, model, Parameters(sets=("random",), samples=1, length=12))
    first = many.sql("SELECT importance FROM samples WHERE sample = 0 ORDER BY layer, head")["importance"].to_numpy()
    own = one.sql("SELECT importance FROM samples ORDER BY layer, head")["importance"].to_numpy()
    assert first == pytest.approx(own, abs=1e-5)
    assert many.info["runs"] == 2 and one.table("summary").to_pylist()[0]["low"] is None


def test_texts_are_drawn_from_their_seeds_and_repeated_ones_repeat():
    model = LoadedModel.wrap(build("llama"))
    drawn = {name: texts_of(model, Parameters(), name, [0, 1]) for name in FAST}
    assert all(len(ids) == 64 for texts in drawn.values() for ids in texts)
    assert len(set(drawn["random"][0])) > 20 and [len(set(ids)) for ids in drawn["repeated"]] == [1, 1]
    assert drawn["random"][0] != drawn["random"][1] and min(drawn["random"][0]) >= 3
    assert texts_of(model, Parameters(seed=1), "random", [0]) != drawn["random"][:1]
    assert texts_of(model, Parameters(), "random", [1]) == drawn["random"][1:]


def test_learned_sinks_are_reported_beside():
    study = run_study(STUDY, LoadedModel.wrap(build("gpt_oss")), Parameters(sets=("random",), samples=2, length=12))
    (summary,) = study.table("summary").to_pylist()
    assert 0 < summary["learned"] < 1


def test_where_attention_sees_both_ways_the_first_token_is_measured_like_any():
    study = run_study(STUDY, LoadedModel.wrap(build("bert")), Parameters(sets=("random",), samples=2, length=16))
    (summary,) = study.table("summary").to_pylist()
    assert summary["uniform"] == pytest.approx(1 / 16)


def test_the_interval_holds_the_mean_and_narrows_with_samples():
    draw = np.random.default_rng(1)
    few, many = (sink_percentage(draw.random((count, 50)), 0.3) for count in (8, 200))
    for found in (few, many):
        assert found.low < found.percent < found.high
    assert many.high - many.low < (few.high - few.low) / 2
    assert sink_percentage(np.array([[0.31, 0.3, np.nan, 0.1]]), 0.3).percent == pytest.approx(100 / 3)


def test_natural_texts_are_read_as_the_tokenizer_reads_them():
    model = LoadedModel.wrap(build("llama", vocab_size=300), byte_level())
    ids = texts_of(model, Parameters(length=30), "natural", [0])[0]
    assert len(ids) == 30 and "The ferry" in model.tokenizer.decode(ids)
    own = Parameters(texts=["abc " * 20], length=30, samples=1)
    assert model.tokenizer.decode(texts_of(model, own, "natural", [0])[0]).startswith("abc abc")
    with pytest.raises(Refused, match=r"text 1 has \d+ tokens and 300 were asked for"):
        texts_of(model, Parameters(texts=["short"], length=300, samples=1), "natural", [0])
    with pytest.raises(Refused, match="41 natural texts were asked for and the set has 40"):
        STUDY.plan(model, Parameters(samples=41, length=20))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sets": ()}, "expected some of natural, random, repeated"),
        ({"sets": ("natural", "x")}, "got natural, x"),
        ({"samples": 0}, "samples: expected a whole number"),
        ({"length": 1}, "length: expected"),
        ({"epsilon": 1}, "epsilon: expected a number"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong, words):
    with pytest.raises(Refused, match=words):
        Parameters(**wrong)


def test_what_does_not_fit_the_model_is_refused():
    model = LoadedModel.wrap(build("llama"))
    with pytest.raises(Refused, match="200 tokens was asked for and in-memory takes at most 128"):
        STUDY.plan(model, Parameters(sets=FAST, length=200))
    with pytest.raises(Refused, match="without a tokenizer"):
        STUDY.plan(model, Parameters())
    assert STUDY.plan(model, Parameters(sets=FAST, samples=9)).runs == 4
    assert Parameters().sets == SETS

"""The random-repeat probe: planted heads, a model set by hand, windows, encoders, and what is refused."""

import math

import pytest
import torch

from backend.errors import Refused
from backend.models import LoadedModel
from backend.store import Library
from backend.studies import all as all_studies
from backend.studies import run_study
from backend.studies.random_repeat import SCORES, STUDY, Parameters, ordinary_tokens, rows_of, targets, text_of
from backend.types import LayerCapture, LayerInfo
from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec
from tests.backend.studies.hand_set import BOS, hand_set_model
from tests.backend.tiny import VOCABULARY, build

UNIFORM = {"induction": 0.013569307, "duplicate_token": 0.013569307, "previous_token": 0.041972785}  # causal, N = 101
PLANTED = {"induction": 0.975319947, "duplicate_token": 0.975319947, "previous_token": 0.983430525}  # beta 8, s = 50


def layer_with(query, key, score) -> LayerCapture:
    """A captured layer made of given queries and keys: [H, N, D]."""
    query, key = query[None], key[None]
    found = attend(query, key, key, score, MeasureRequest(), impl="reference")
    info = LayerInfo("self", 0, "x", "softmax", query.shape[1], key.shape[1], query.shape[3], query.shape[3])
    return LayerCapture(info, query, key, key, score, found.lse.float(), found.measures, "reference")


def planted(name: str, length: int, beta: float) -> torch.Tensor:
    """Queries that give the logit beta to one target of their row and 0 to all others: [1, N, N]."""
    n = 2 * length + 1
    query = torch.zeros(1, n, n)
    rows, columns = targets(length)[name]
    causal = columns <= rows
    query[0, rows[causal], columns[causal]] = beta
    return query


def scores_of(study) -> dict[tuple[int, int], dict]:
    return {(row["layer"], row["head"]): row for row in study.table("scores").to_pylist()}


@pytest.mark.parametrize("name", SCORES)
def test_a_planted_head_has_its_value_and_uniform_attention_its_own(name):
    n = 101
    layer = layer_with(planted(name, 50, 8.0), torch.eye(n)[None], ScoreSpec(scale=1.0))
    (row,) = rows_of(layer, 50)
    assert row[name] == pytest.approx(PLANTED[name], abs=1e-6)
    assert {other: row[f"{other}_uniform"] for other in SCORES} == pytest.approx(UNIFORM, abs=1e-9)
    (flat,) = rows_of(layer_with(torch.zeros(1, n, n), torch.eye(n)[None], ScoreSpec(scale=1.0)), 50)
    assert {other: flat[other] for other in SCORES} == pytest.approx(UNIFORM, abs=1e-7)


@pytest.mark.parametrize(("beta", "value"), [(8.0, 0.973330482), (12.0, 0.999476956)])
def test_a_model_set_by_hand(beta, value):
    study = run_study(STUDY, LoadedModel.wrap(hand_set_model(induction=beta)), Parameters(samples=3, seed=5))
    heads = scores_of(study)
    assert heads[0, 0]["previous_token"] == pytest.approx(0.983430525, abs=1e-6)
    assert heads[1, 0]["induction"] == pytest.approx(value, abs=1e-6)
    assert heads[0, 0]["induction"] < 0.02 and heads[1, 0]["previous_token"] < 0.05
    assert heads[1, 0]["duplicate_token"] < 0.02
    # Every sample has the same positions and matches, so there is nothing to vary.
    assert heads[1, 0]["induction_error"] == pytest.approx(0.0, abs=1e-6) and heads[1, 0]["samples"] == 3


def test_mean_and_standard_error_are_those_of_the_samples():
    study = run_study(STUDY, LoadedModel.wrap(build("llama")), Parameters(length=9, samples=4))
    samples = study.table("samples").to_pylist()
    assert len(samples) == 4 * 2 * 8
    for (layer, head), row in scores_of(study).items():
        for name in SCORES:
            values = torch.tensor(
                [s[name] for s in samples if (s["layer"], s["head"]) == (layer, head)], dtype=torch.float64
            )
            assert row[name] == pytest.approx(values.mean().item(), abs=1e-12)
            assert row[f"{name}_error"] == pytest.approx(values.std().item() / math.sqrt(4), abs=1e-12)
    one = run_study(STUDY, LoadedModel.wrap(build("llama")), Parameters(length=9, samples=1))
    assert all(row["induction_error"] is None for row in scores_of(one).values())


def test_scores_are_those_of_the_models_own_weights():
    model = build("llama", attn_implementation="eager")
    study = run_study(STUDY, LoadedModel.wrap(build("llama")), Parameters(length=7, samples=1))
    ids = [row["token_id"] for row in study.table("texts").sort_by("position").to_pylist()]
    with torch.no_grad():
        maps = model(torch.tensor([ids]), output_attentions=True).attentions
    second = torch.arange(8, 15)
    for (layer, head), row in scores_of(study).items():
        own = maps[layer][0, head]
        assert row["induction"] == pytest.approx(own[second, second - 6].mean().item(), abs=1e-5)
        assert row["duplicate_token"] == pytest.approx(own[second, second - 7].mean().item(), abs=1e-5)
        assert row["previous_token"] == pytest.approx(own.diagonal(-1).mean().item(), abs=1e-5)


def test_a_target_outside_the_window_is_no_zero():
    study = run_study(STUDY, LoadedModel.wrap(build("mistral")), Parameters(length=4, samples=2))
    for row in scores_of(study).values():
        assert row["induction"] is not None  # 3 back, the window holds 4 keys
        assert row["duplicate_token"] is None and row["duplicate_token_uniform"] is None
        assert row["previous_token_uniform"] == pytest.approx((1 / 2 + 1 / 3 + 6 / 4) / 8)


def test_where_attention_sees_both_ways_both_copies_count():
    study = run_study(STUDY, LoadedModel.wrap(build("bert")), Parameters(length=6, samples=1, first_token=1))
    for row in scores_of(study).values():
        assert [row[f"{name}_uniform"] for name in SCORES] == pytest.approx([1 / 13] * 3)


def test_texts_repeat_are_drawn_without_special_tokens_and_from_their_seeds():
    model = LoadedModel.wrap(build("llama"))
    assert ordinary_tokens(model) == list(range(3, VOCABULARY))
    drawn = [text_of(model, Parameters(seed=seed), number) for seed in (0, 1) for number in (0, 1)]
    for ids in drawn:
        assert len(ids) == 101 and ids[0] == BOS and ids[1:51] == ids[51:]
        assert len(set(ids)) == 51 and min(ids[1:]) >= 3
    assert len({tuple(ids) for ids in drawn}) == 4
    assert text_of(model, Parameters(seed=1), 1) == drawn[3]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"length": 64}, "take 129 tokens and the model takes 128"),
        ({"length": 60, "first_token": 100}, "first_token: expected an id from 0 to 99, got 100"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_with_both_numbers(parameters, words):
    with pytest.raises(Refused, match=words):
        STUDY.plan(LoadedModel.wrap(build("llama")), Parameters(**parameters))


def test_a_vocabulary_too_small_for_a_copy_is_refused():
    model = LoadedModel.wrap(build("llama", vocab_size=20))
    with pytest.raises(Refused, match="18 different tokens was asked for and the vocabulary has 17"):
        STUDY.plan(model, Parameters(length=18))


@pytest.mark.parametrize("wrong", [{"length": 1}, {"samples": 0}, {"seed": -1}, {"length": 2.5}, {"samples": True}])
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(Refused, match="expected a whole number"):
        Parameters(**wrong)


def test_the_plan_says_what_it_will_take(data_folder):
    model = LoadedModel.wrap(build("llama"))
    plan = STUDY.plan(model, Parameters(samples=10))
    assert (plan.runs, plan.n_tokens) == (10, 101)
    assert plan.sentence.startswith("10 texts of 101 tokens · about ") and plan.sentence.endswith("MB on disk")
    kept = STUDY.plan(model, Parameters(samples=10, keep_analyses=True))
    assert kept.seconds > plan.seconds and kept.disk_mb > plan.disk_mb
    assert not any(data_folder.iterdir())


def test_analyses_are_kept_where_that_is_asked_for(data_folder):
    library = Library(data_folder)
    model = LoadedModel.wrap(build("llama"))
    study = run_study(STUDY, model, Parameters(length=5, samples=2, keep_analyses=True), library=library)
    members = study.info["members"]
    assert len(set(members)) == 2 and {e.id for e in library.list(type="analysis")} == set(members)
    rows = [
        row for row in study.table("samples").to_pylist() if (row["sample"], row["layer"], row["head"]) == (1, 1, 3)
    ]
    second = torch.arange(6, 11).numpy()
    own = library.open(members[1]).map(1, 3)[second, second - 4].mean()
    assert rows[0]["induction"] == pytest.approx(float(own), abs=1e-5)


def test_the_folder_is_the_registry():
    assert all_studies()["random_repeat"] is STUDY and STUDY.name == "random_repeat"
    for study in all_studies().values():
        assert study.title and study.question.endswith("?") and study.tables
        assert all(column.meaning for columns in study.tables.values() for column in columns.values())

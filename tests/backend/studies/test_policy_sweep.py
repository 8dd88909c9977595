"""The sweep of policies and patterns: its tables, what it refuses, and that it carries on where it stopped."""

import pytest

from backend.errors import Cancelled, Refused
from backend.models import LoadedModel
from backend.sparsity import real_run
from backend.store import Library
from backend.studies import all as studies
from backend.studies import run_study
from backend.studies.policy_sweep import STUDY, Parameters, ranges
from tests.backend.tiny import build, ids

TOKENS = ids(28)[0].tolist()


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama"))


@pytest.fixture(scope="module")
def study(model, tmp_path_factory):
    parameters = Parameters(
        token_ids=TOKENS, policies=["oracle", "window", "expected_attention"], patterns=["best"],
        budgets=[0.0, 0.4, 1.0],
        new_tokens=3, subject="a text",
    )  # fmt: skip
    return run_study(STUDY, model, parameters, library=Library(tmp_path_factory.mktemp("library")))


def rows(study, table="runs", **where):
    return study.table(table, **where).to_pylist()


def test_it_is_on_the_shelf_and_named_after_its_text(study):
    assert studies()["policy_sweep"] is STUDY
    assert STUDY.title_of(Parameters(token_ids=TOKENS, subject="a text")) == "Sparsity run · a text"
    assert set(study.tables()) == {"runs", "heads", "kept", "judges", "info"}


def test_every_choice_has_its_row_and_damage_falls_with_the_budget(study):
    assert len(rows(study)) == 12
    for choice in ("oracle", "window", "expected_attention"):
        by_budget = sorted(rows(study, choice=choice), key=lambda row: row["budget"])
        assert [row["retained"] for row in by_budget] == sorted(row["retained"] for row in by_budget)
        whole = by_budget[-1]
        assert whole["kl"] < 1e-8 and whole["same_first"] == 1 and whole["output_error"] < 1e-5
        assert whole["text"] == whole["text_dense"] and whole["loss"] == pytest.approx(whole["loss_dense"], abs=1e-6)
        assert by_budget[0]["kept"] == 0 and by_budget[0]["kl"] > 0.01
        for row in by_budget:
            assert row["cache_bytes"] == row["cache_bytes_formula"] <= row["cache_bytes_dense"]
            assert row["retained"] <= row["best_possible"] + 1e-12


def test_patterns_write_text_save_no_memory_and_cost_what_they_drop(study):
    for row in rows(study, kind="pattern"):
        assert row["cache_bytes"] == row["cache_bytes_dense"]
        assert len(row["text"].split()) == len(row["text_dense"].split()) == 3
        assert "saves work, not memory" in row["note"]
    whole = next(r for r in rows(study, kind="pattern") if r["budget"] == 1.0)
    assert whole["kl"] < 1e-8 and whole["text"] == whole["text_dense"]


def test_details_say_which_keys_heads_and_judges(study):
    kept = rows(study, "kept", choice="window", budget=0.4)
    assert {row["positions"] for row in kept} == {"13-20"} and len(kept) == 4 and kept[0]["keys"] == 8
    assert len(rows(study, "heads", choice="oracle", budget=0.4)) == 16
    judges = rows(study, "judges", choice="oracle", budget=0.4)
    assert [row["position"] for row in judges] == list(range(21, 28))


def test_a_policy_that_cannot_score_a_model_says_so_and_stops_nobody(tmp_path):
    model = LoadedModel.wrap(build("gpt2"))
    parameters = Parameters(token_ids=TOKENS, policies=["expected_attention", "knorm"], budgets=[0.5], new_tokens=0)
    found = rows(run_study(STUDY, model, parameters, library=Library(tmp_path)))
    assert found[0]["kl"] is None and "rotary embedding" in found[0]["note"] and found[1]["kl"] > 0


@pytest.mark.parametrize(
    "given, said",
    [
        ({"policies": ["best"]}, "policies: expected some of adakv"),
        ({"patterns": ["snapkv"]}, "patterns: expected some of best, local"),
        ({"budgets": [1.2]}, "expected 0 to 1"),
        ({"budgets": []}, "at least one budget"),
        ({"policies": [], "patterns": []}, "one policy or pattern"),
        ({"new_tokens": 1000}, "new_tokens: expected a whole number from 0 to 128"),
    ],
)
def test_choices_that_make_no_sense_are_refused(given, said):
    with pytest.raises(Refused, match=said):
        Parameters(token_ids=TOKENS, **given)


@pytest.mark.parametrize(
    "model_type, given, said",
    [
        ("llama", {"context": 28}, "must leave a token behind it"),
        ("llama", {"token_ids": TOKENS * 5}, "the model takes 128"),
        ("bert", {}, "no key-value cache"),
        ("qwen3_next", {}, "other states than keys and values"),
    ],
)
def test_texts_and_models_that_do_not_fit_are_refused_before_anything_runs(model_type, given, said):
    parameters = Parameters(**{"token_ids": TOKENS, **given})
    with pytest.raises(Refused, match=said):
        STUDY.plan(LoadedModel.wrap(build(model_type)), parameters)


def test_it_stops_when_asked_and_carries_on(model, tmp_path):
    parameters = Parameters(token_ids=TOKENS, policies=["knorm", "tova"], budgets=[0.5], new_tokens=0)
    library = Library(tmp_path)
    asked = iter([False] * 8)
    with pytest.raises(Cancelled):
        run_study(STUDY, model, parameters, library=library, cancel=lambda: next(asked, True))
    assert len(rows(run_study(STUDY, model, parameters, library=library))) == 2


def test_positions_as_runs():
    assert ranges([]) == "" and ranges([3]) == "3" and ranges([0, 1, 2, 5, 7, 8]) == "0-2 5 7-8"


def test_nothing_of_a_text_stays_in_memory_after_the_last_run(model, study):
    assert model.model not in real_run._prepared

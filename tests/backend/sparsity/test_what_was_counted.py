"""Budgets, contexts and layers at the edge: what was kept, and the sentence that says what was counted."""

import pytest

from backend import policies
from backend.errors import Refused
from backend.models import LoadedModel
from backend.pipeline import analyse
from backend.sparsity.simulate import Simulation
from backend.sparsity.stored_layers import not_counted, stored_layers
from backend.store import Library
from backend.studies import run_study
from backend.studies.policy_sweep import STUDY, Parameters
from tests import stored
from tests.backend.policies.planted import layer
from tests.backend.tiny import build, ids
from tests.backend.tiny_more import build as build_more

SHELF = sorted(set(policies.all()) - {"expected_attention"})
NONE = "No key of the context is kept: what is retained lies on the tokens behind it."
ALL = "Every key that can be reached is kept: nothing is saved."


def outcomes(budget, names=SHELF, **rule):
    one = layer(**rule)
    return one, {found.policy: found for found in Simulation.of([lambda: one], names).outcomes(budget)}


@pytest.mark.parametrize("name", SHELF)
def test_a_budget_of_nothing_keeps_nothing_and_says_on_what_the_rest_lies(name):
    one, found = outcomes(0.0)
    outcome = found[name]
    assert outcome.kept_share == 0 and outcome.note.startswith(NONE)
    assert "of them are kept" not in outcome.note, "nothing is kept, not even what a policy always keeps"
    behind = one.future[:, :, one.n :].sum(-1) / one.future.sum(-1)
    assert outcome.retained == pytest.approx(float(behind.mean()), abs=1e-6)


@pytest.mark.parametrize("name", SHELF)
def test_a_budget_of_everything_saves_nothing(name):
    _, found = outcomes(1.0)
    assert found[name].note.startswith(ALL)
    assert found[name].kept_share == 1 and found[name].retained == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    "name, budget, kept, said",
    [
        ("streaming_llm", 3 / 60, [1, 2, 3], "StreamingLLM always keeps 4 keys and the budget is 3: only the latest of "
                                             "them are kept."),
        ("snapkv", 2 / 60, [58, 59], "SnapKV looks at the last 64 rows; of 60 tokens it took 7. SnapKV always keeps 7 "
                                     "keys and the budget is 2: only the latest of them are kept."),
        ("tova", 0.4 / 60, [], "TOVA"),
    ],
)  # fmt: skip
def test_budgets_below_what_is_always_kept(name, budget, kept, said):
    _, found = outcomes(budget)
    places = found[name].layers[0].kept[0].nonzero()[:, 0].tolist()
    assert places == kept
    if name == "tova":
        assert found[name].note is None, "less than one key is none, and nothing was forced"
    else:
        assert found[name].note == said


@pytest.mark.parametrize(
    "name, said",
    [
        ("snapkv", "SnapKV looks at the last 64 rows; of 5 tokens it took 1."),
        ("adakv", "SnapKV"),
        ("top_theta", "Top-theta looks at the last 64 rows; this context has 5."),
        ("duo_attention", "they kept 0 and 1"),
        ("streaming_llm", "StreamingLLM always keeps 4 keys and the budget is 2: only the latest of them are kept."),
    ],
)
def test_contexts_shorter_than_a_policys_window(name, said):
    _, found = outcomes(0.5, n=5, length=8)
    if name == "adakv":  # looks as SnapKV does
        assert found["adakv"].layers[0].kept.sum() == 4 and "of 5 tokens it took 1" in found["adakv"].note
    else:
        assert said in found[name].note


@pytest.mark.parametrize("rule, reach", [({"window": 21}, 20), ({"chunk": 32}, 28)])
def test_keys_that_a_window_or_chunk_has_left_are_no_saving(rule, reach):
    _, found = outcomes(0.5, **rule)
    for name, outcome in found.items():
        assert outcome.layers[0].reachable == reach
        assert int(outcome.layers[0].kept.sum()) <= 2 * (reach // 2), name
        assert (
            f"In 1 of 1 layers later rows reach only {reach} of the 60 keys: those already out of reach are no saving, "
            "and budgets are shares of the rest." in outcome.note
        )


def test_of_a_hybrid_model_each_layer_has_its_own_reach():
    near, far = layer(window=11), layer(number=1, seed=1)
    found = Simulation.of([lambda: near, lambda: far], ["window"]).outcomes(0.5)[0]
    assert [int(one.kept.sum()) for one in found.layers] == [2 * 5, 2 * 30]
    assert found.kept_share == 0.5, "half of the 10 and of the 60 keys in reach"
    assert "In 1 of 2 layers later rows reach only 10 of the 60 keys" in found.note


def test_heads_that_share_keys_share_one_choice():
    one, found = outcomes(0.25, heads=6, key_heads=2)
    for outcome in found.values():
        assert outcome.layers[0].kept.shape == (2, 60) and len(outcome.layers[0].retained) == 6
    scores = policies.all()["h2o"].scores(one)
    assert scores.shape == (2, 60)
    assert scores[1].tolist() == pytest.approx(one.received[3:].mean(0).tolist())


def test_layers_that_keep_no_keys_are_not_counted(tmp_path):
    library = Library(tmp_path)
    hybrid, plain = (library.open(stored.store(tmp_path, layers=layers)) for layers in ((3, 7), (0, 1)))
    said = "Counted are the 2 layers of softmax attention among the first 8; the others keep no keys."
    assert not_counted(hybrid, "self") == said and not_counted(plain, "self") is None
    assert len(stored_layers(hybrid, "self")) == 2


def test_encoders_and_cross_attention_have_nothing_to_evict(tmp_path):
    library = Library(tmp_path)
    encoder = analyse(LoadedModel.wrap(build("bert")), ids(20)[0].tolist(), library=library)
    with pytest.raises(Refused, match="reads both ways and has no cache: there is nothing to evict, only patterns"):
        stored_layers(encoder, "self")
    both = analyse(LoadedModel.wrap(build_more("t5")), ids(20)[0].tolist(), library=library)
    with pytest.raises(Refused, match="Cross-attention reads the keys of the encoder"):
        stored_layers(both, "cross")
    with pytest.raises(Refused, match="reads both ways"):
        stored_layers(both, "encoder")


def test_the_notes_of_a_real_run_are_those_of_its_simulation(tmp_path):
    given = Parameters(
        token_ids=tuple(ids(28)[0].tolist()), policies=("snapkv",), budgets=(0.0, 0.1, 1.0), new_tokens=0
    )
    study = run_study(STUDY, LoadedModel.wrap(build("mistral")), given, library=Library(tmp_path))
    said = {row["budget"]: row["note"] for row in study.table("runs").to_pylist()}
    reach = "In 2 of 2 layers later rows reach only 3 of the 21 keys"
    assert said[0.0].startswith(f"{NONE} {reach}") and said[1.0].startswith(f"{ALL} {reach}")
    assert reach in said[0.1] and "it took 2" in said[0.1]

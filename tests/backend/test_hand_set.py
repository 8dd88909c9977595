"""The model set by hand: the map of every head equals its closed form, and its prediction follows from them."""

import numpy as np
import pytest

from backend.models import available, load
from backend.models.hand_set import HEADS, LAYERS, NAME, POSITIONS, SURE, VOCABULARY
from backend.pipeline import analyse
from backend.studies import run_study
from backend.studies.random_repeat import STUDY, Parameters, targets

RHYME = "the fox met a hen near one old barn while two geese slept under that tall tree by our pond"
TEXTS = [" ".join([RHYME] * 3), "the dog saw the cat and the cat saw the dog then the dog fed the cat", "fox"]


def softmax(scores: np.ndarray) -> np.ndarray:
    """Causal softmax over the keys, in float64."""
    seen = np.tril(np.ones_like(scores, bool))
    weights = np.where(seen, np.exp(scores), 0.0)
    return weights / weights.sum(-1, keepdims=True)


def closed_forms(ids: list[int]) -> dict[tuple[int, int], np.ndarray]:
    """(layer, head) -> map, from what HEADS says in words."""
    n, place = len(ids), np.arange(len(ids))
    token = np.eye(len(VOCABULARY))[ids]
    back = place[:, None] - place[None, :]
    score = {place: head.score for place, head in HEADS.items()}
    maps = {
        (0, 0): softmax(score[0, 0] * (back == 1)),
        (0, 1): softmax(score[0, 1] * np.broadcast_to(place == 0, (n, n))),
        (0, 2): np.tril(0.5 ** back.clip(0)) / (2 - 0.5**place)[:, None],  # halves with every step
        (0, 3): np.tril(np.ones((n, n))) / (place + 1)[:, None],
        (1, 1): softmax(score[1, 1] * (token @ token.T)),
        (1, 2): softmax(score[1, 2] * (back == 0)),
        (1, 3): softmax(score[1, 3] * (back == 2)),
    }
    before = maps[0, 0] @ token  # what head 0.0 wrote
    maps[1, 0] = softmax(score[1, 0] * (token @ before.T))
    return maps


@pytest.fixture(scope="module")
def model():
    return load(NAME)


@pytest.mark.parametrize("text", TEXTS)
def test_every_map_equals_its_closed_form(model, text):
    analysis = analyse(model, text)
    ids = [token.token_id for token in analysis.tokens_list()]
    expected = closed_forms(ids)
    assert expected.keys() == HEADS.keys() and len(analysis.layers()) == LAYERS
    for (layer, head), closed in expected.items():
        assert np.abs(analysis.map(layer, head) - closed).max() < 1e-6, HEADS[layer, head].name


def test_the_expected_word_is_what_followed_before(model):
    """The stream holds what the induction head copied, and the logits read only that."""
    text = f"{RHYME} the fox met a"
    analysis = analyse(model, text)
    ids = [token.token_id for token in analysis.tokens_list()]
    next_part = closed_forms(ids)[1, 0][-1] @ np.eye(len(VOCABULARY))[ids]
    probability = np.exp(SURE * next_part) / np.exp(SURE * next_part).sum()
    first = analysis.predictions().to_pylist()[0]
    assert first["text"] == "hen"
    assert np.exp(first["logprob"]) == pytest.approx(probability[VOCABULARY.index("hen")], abs=1e-6)


def test_every_head_has_a_reason_and_its_own_name():
    assert len({head.name for head in HEADS.values()}) == len(HEADS) == 8
    assert all(len(head.reason) > 40 for head in HEADS.values())


def test_a_word_it_does_not_know_is_shown_as_unknown(model):
    analysis = analyse(model, "the giraffe")
    assert [token.token_id for token in analysis.tokens_list()] == [1, VOCABULARY.index("the"), 0]
    assert POSITIONS >= 61  # three copies of the rhyme and the start


def test_it_is_loaded_and_offered_like_a_packaged_one(model):
    assert load(NAME) is model and (model.name, model.dtype, model.max_positions) == (NAME, "float32", POSITIONS)
    assert [choice.name for choice in available()][-1] == NAME
    assert not any(parameter.requires_grad for parameter in model.model.parameters())
    assert load(NAME, dtype="bfloat16").dtype == "bfloat16"


def test_a_study_reads_it(model):
    """Random repeat finds the values of the closed forms: each copy has the same 20 words, every one of them once."""
    study = run_study(STUDY, model, Parameters(length=20, samples=2))
    maps = closed_forms([row["token_id"] for row in study.table("texts").to_pylist() if row["sample"] == 0])
    wanted = {(1, 0): "induction", (1, 1): "duplicate_token", (0, 0): "previous_token", (0, 3): "induction"}
    for row in study.table("scores").to_pylist():
        name = wanted.get((row["layer"], row["head"]))
        if name is not None:
            rows, keys = (index.numpy() for index in targets(20)[name])
            seen = keys <= rows
            mean = maps[row["layer"], row["head"]][rows[seen], keys[seen]].mean()
            assert row[name] == pytest.approx(mean, abs=1e-6), name

"""What would help: each method against dense attention with the same edit; verdicts; refusals."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from backend.basins.calibration import redistribution
from backend.basins.helping import Reading
from backend.basins.outcome import says, verdict
from backend.errors import Refused
from backend.models import LoadedModel
from backend.prompts import Prompt
from backend.studies import run_study, what_helps
from backend.studies.what_helps import STUDY, Parameters, redistributed
from tests.backend.tiny import build
from tests.backend.tiny_tokenizers import byte_level

DOCUMENTS = ["the cat sat", "on the mat .", "hello world of text", "unable table"]
PROMPT = {"documents": DOCUMENTS, "question": "the cat sat on ?"}
ANSWER = "the mat"
SMALL = Parameters(prompt=PROMPT, answer=ANSWER, gold=1, orders=2, new_tokens=2, temperature=0.01)


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama", vocab_size=300, max_position_embeddings=400), byte_level())


@pytest.fixture(scope="module")
def study(model):
    return run_study(STUDY, model, SMALL)


def edited_logprob(model, reading, edit, monkeypatch) -> float:
    """ln p of the answer under dense attention whose weights [H, N, N] go through edit(weights, layer)."""
    whole = model.tokenizer(f"{reading.encoded.text} {ANSWER}")["input_ids"]
    twin = copy.deepcopy(model.model)
    twin.set_attn_implementation("sdpa")

    def dense(module, query, key, value, mask, scaling=None, **kwargs):
        group = query.shape[1] // key.shape[1]
        key, value = (part.repeat_interleave(group, 1).double() for part in (key, value))
        scores = query.double() @ key.mT * scaling
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
        weights = edit(scores.softmax(-1)[0], module.layer_idx)[None]
        return (weights @ value).to(query.dtype).transpose(1, 2), None

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", dense)
    with torch.no_grad():
        logits = twin(torch.tensor([whole])).logits[0].double().log_softmax(-1)
    monkeypatch.undo()
    start = len(reading.encoded.token_ids)
    return sum(float(logits[at - 1, whole[at]]) for at in range(start, len(whole)))


@pytest.fixture
def reading(model):
    return Reading.of(model, Prompt(**PROMPT), [0, 1, 2, 3], lambda: None)


def outcomes(study, method) -> list[dict]:
    return study.table("outcomes", method=method).sort_by("order").to_pylist()


def test_i02_steering_equals_dense_attention_with_the_same_edit(model, study, reading, monkeypatch):
    part, first = reading.slots.parts[1], reading.slots.question.start

    def edit(weights, layer):
        mass = weights[:, first:, part.start : part.stop].sum(-1, keepdim=True)
        inside = torch.where(mass < 0.2, 0.2 / mass, 1.0)
        outside = torch.where(mass < 0.2, 0.8 / (1 - mass), 1.0)
        changed = weights.clone()
        changed[:, first:] *= outside
        changed[:, first:, part.start : part.stop] = weights[:, first:, part.start : part.stop] * inside
        return changed

    truth = edited_logprob(model, reading, edit, monkeypatch)
    assert outcomes(study, "steering the marked")[0]["logprob"] == pytest.approx(truth, abs=1e-4)
    plain = edited_logprob(model, reading, lambda weights, layer: weights, monkeypatch)
    assert outcomes(study, "as it is")[0]["logprob"] == pytest.approx(plain, abs=1e-4)
    assert abs(truth - plain) > 1e-2, "the edit changes something"


def test_b04_redistribution_equals_dense_attention_with_the_same_edit(model, study, reading, monkeypatch):
    own = reading.found.parts(reading.slots, "last")
    dummy = [reading.dummies([at]).parts(reading.slots, "last")[at] for at in range(4)]
    shares, first = redistribution(own - dummy, SMALL.temperature), reading.slots.question.start

    def edit(weights, layer):
        if layer == 0:  # the later half of two layers is layer 1
            return weights
        changed = weights.clone()
        masses = torch.stack([weights[:, first:, p.start : p.stop].sum(-1) for p in reading.slots.parts])
        for share, mass, p in zip(shares, masses, reading.slots.parts, strict=True):
            changed[:, first:, p.start : p.stop] *= (share * masses.sum(0) / mass)[..., None]
        return changed

    truth = edited_logprob(model, reading, edit, monkeypatch)
    assert outcomes(study, "redistribution")[0]["logprob"] == pytest.approx(truth, abs=1e-4)
    assert abs(truth - outcomes(study, "as it is")[0]["logprob"]) > 1e-3


def test_redistribution_costs_the_dummies_it_uses_and_no_others(model):
    own = Reading.of(model, Prompt(**PROMPT), [0, 1, 2, 3], lambda: None)
    everywhere = own.dummies(range(4))
    known, shared = own.cost_dummies, redistributed(own, SMALL, everywhere)["cost"]
    assert shared == pytest.approx(1 + own.cost_dummies - known + own.part_of(own.answer(SMALL)), abs=1e-6)
    cheap = redistributed(own, replace(SMALL, exact=False), everywhere)["cost"]
    assert cheap == pytest.approx(shared + known)  # all dummies of this reading, those of the exact scores too


def test_parts_out_of_reach_are_refused_in_words(model, monkeypatch):
    monkeypatch.setattr(what_helps, "null_calibrated", lambda *given: np.full(4, np.nan))
    with pytest.raises(Refused, match="see none of the parts"):
        run_study(STUDY, model, SMALL)


def test_b05_sorting_puts_the_most_attended_part_last(reading):
    shares = reading.found.parts(reading.slots, "last")
    assert reading.sorted_order()[-1] == int(np.argmax(shares))


def test_orders_are_real_prompts(study):
    for row in study.table("outcomes").to_pylist():
        if row["detail"].startswith("order"):
            assert sorted(row["detail"].split()[1:]) == ["1", "2", "3", "4"]
    methods = {row["method"]: row for row in study.table("methods").to_pylist()}
    assert methods["as it is"]["difference"] == 0 and methods["as it is"]["cost"] == 1
    assert methods["steering"]["cost"] < methods["redistribution"]["cost"]
    for name, row in methods.items():
        after = [one["logprob"] for one in outcomes(study, name)]
        assert row["after"] == pytest.approx(np.mean(after)) and row["difference"] == pytest.approx(
            row["after"] - row["before"]
        )


def test_a_verdict_needs_more_than_chance():
    assert verdict([1.0, 1.1, 0.9]).word == "better" and verdict([-1.0, -1.1, -0.9]).word == "worse"
    found = verdict([2.0, -1.0, 0.5])
    assert found.word == "no difference beyond chance" and found.low < 0 < found.high
    assert verdict([1.0]).word == "not judged" and verdict([None, None]).mean is None
    pair = verdict([0.0, 2.0])
    assert pair.high - pair.mean == pytest.approx(12.706 * np.sqrt(2) / np.sqrt(2), rel=1e-3)
    assert says("It was  Margaret\nLorne.", "margaret lorne") and not says("Margaret", "Margaret Lorne")


def test_without_a_reference_answer_nothing_is_judged(model):
    found = run_study(STUDY, model, Parameters(prompt=PROMPT, orders=1, new_tokens=1, exact=False))
    for row in found.table("methods").to_pylist():
        assert row["after"] is None and row["says_after"] is None and row["verdict"] in ("", "not judged")
    assert "steering the marked" not in found.table("methods")["method"].to_pylist()


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"gold": 9}, "parts 0 to 3"), ({"prompt": {"documents": ["a"], "question": "b"}}, "two parts or more")],
)
def test_bad_input_is_refused_in_words(model, changes, words):
    with pytest.raises(Refused, match=words):
        run_study(STUDY, model, Parameters(**{"prompt": PROMPT, **changes}))

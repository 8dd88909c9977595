"""Sinks over a set of prompts: per length, per head, per kind; short prompts and broken lines."""

import numpy as np
import pytest
import torch

from backend.errors import Refused
from backend.models import LoadedModel
from backend.prompt_sets import read_set
from backend.studies import run_study
from backend.studies.sink_sets import STUDY, Parameters
from tests.backend.eager import eager_maps
from tests.backend.tiny import build
from tests.backend.tiny_tokenizers import byte_level

TEXTS = ("the cat sat on the mat . the cat sat on the mat .", "hello world, hello\nworld 12", "a", "")


def model_with(add_bos: bool = False) -> LoadedModel:
    return LoadedModel.wrap(build("llama", vocab_size=300), byte_level(add_bos=add_bos))


def test_every_number_is_that_of_the_models_own_maps():
    model = model_with()
    parameters = Parameters(texts=TEXTS, lengths=(4, 12), epsilon=0.27, least_rows=4)
    study = run_study(STUDY, model, parameters)
    rows = study.table("prompts").to_pylist()
    assert [row["note"] for row in rows if row["prompt"] == 2] == [
        "Not measured because it has 1 tokens.",
        "Not measured because it has 1 tokens.",
        None,
    ]
    assert {row["note"] for row in rows if row["prompt"] == 3} == {"Not measured because it gives no token."}
    for row in rows:
        if row["note"] is not None:
            assert row["percent"] is None
            continue
        ids = model.tokenizer(TEXTS[row["prompt"]])["input_ids"][: row["length"]]
        maps = torch.stack([one[0] for one in eager_maps(model.model, {"input_ids": torch.tensor([ids])})]).double()
        n = len(ids)
        importance = maps.sum(2) / torch.arange(n, 0, -1)
        assert row["percent"] == pytest.approx(100 * (importance[..., 0] > 0.27).double().mean().item())
        assert row["uniform"] == pytest.approx(np.mean([1 / (i + 1) for i in range(n)]), abs=1e-6)
        if n < 4:
            assert row["sink_tokens"] is None and row["sink_mass"] is None
            continue
        sinks = (importance > 0.1) & (torch.arange(n, 0, -1) >= 4)
        assert row["sink_tokens"] == int(sinks.any(0).any(0).sum())
        mass = (maps.sum(2) * sinks).sum(-1).mean().item() / n
        assert row["sink_mass"] == pytest.approx(mass, abs=1e-5)


def test_means_and_spreads_are_those_of_the_prompts():
    study = run_study(STUDY, model_with(), Parameters(texts=TEXTS, lengths=(4, 8, 100)))
    prompts = study.table("prompts").to_pylist()
    lengths = {row["length"]: row for row in study.table("lengths").to_pylist()}
    assert {length: row["prompts"] for length, row in lengths.items()} == {4: 2, 8: 2, 100: 0, 0: 3}
    assert lengths[100]["percent"] is None and lengths[100]["spread"] is None
    values = [row["percent"] for row in prompts if row["length"] == 4 and not row["whole"] and row["note"] is None]
    assert lengths[4]["percent"] == pytest.approx(np.mean(values))
    assert lengths[4]["spread"] == pytest.approx(np.std(values, ddof=1))
    assert len(study.table("heads").to_pylist()) == 16


def test_kinds_are_counted_and_the_begin_of_text_is_told():
    study = run_study(STUDY, model_with(add_bos=True), Parameters(texts=TEXTS[:2], lengths=(), least_rows=1))
    assert {row["first_type"] for row in study.table("prompts").to_pylist()} == {"begin of text"}
    kinds = {row["type"]: row for row in study.table("types").to_pylist()}
    assert kinds["begin of text"]["tokens"] == 2 and kinds["comma"]["tokens"] == 1 and kinds["newline"]["tokens"] == 1


def test_broken_lines_are_kept_with_their_reasons():
    found = read_set('{"text": "the cat"}\n{"x": 1}\n')
    left_out = tuple((one.line, one.reason) for one in found.left_out)
    model = model_with()
    parameters = Parameters(texts=found.texts, left_out=left_out, lengths=())
    assert "1 lines left out" in STUDY.plan(model, parameters).sentence
    study = run_study(STUDY, model, parameters)
    assert study.table("left_out").to_pylist() == [{"line": 2, "reason": "it has no field text or prompt or content"}]


def test_what_cannot_be_read_is_refused():
    with pytest.raises(Refused, match="without a tokenizer"):
        STUDY.plan(LoadedModel.wrap(build("llama")), Parameters())
    for wrong in ({"lengths": (1,)}, {"lengths": tuple(range(2, 12))}, {"longest": 0}, {"theta": 1}):
        with pytest.raises(Refused, match="expected"):
            Parameters(**wrong)

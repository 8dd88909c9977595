"""The calibration study against eager maps of the same token ids; reading from a prefix changes nothing."""

import numpy as np
import pytest
import torch

from backend.basins.calibration import DUMMY, with_dummies
from backend.basins.passes import session, step, why_not_reusable
from backend.basins.readings import prefix_of
from backend.basins.slots import slots_of
from backend.errors import Refused
from backend.models import LoadedModel
from backend.prompts import Prompt, encode
from backend.studies import run_study
from backend.studies.calibration import METHODS, STUDY, Parameters, filler
from tests.backend.eager import eager_maps
from tests.backend.tiny import build
from tests.backend.tiny_tokenizers import byte_level

DOCUMENTS = ["the cat sat", "on the mat .", "hello world of text", "unable table"]
PROMPT = {"documents": DOCUMENTS, "question": "the cat sat on ?"}


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama", vocab_size=300, max_position_embeddings=400), byte_level())


@pytest.fixture(scope="module")
def study(model):
    return run_study(STUDY, model, Parameters(prompt=PROMPT, sinkfree=False))


def eager_parts(model, token_ids, slots, rows) -> np.ndarray:
    """Share per token of every part, mean over all heads: [K]."""
    maps = eager_maps(model.model, {"input_ids": torch.tensor([token_ids])}, torch.float64)
    whole = torch.stack(maps)[:, 0].flatten(0, 1)[:, rows].mean((0, 1)).numpy()
    return np.array([whole[p.start : p.stop].mean() for p in slots.parts])


@pytest.mark.parametrize("looking", ["question", "last"])
def test_b04_every_dummy_run_equals_eager(model, study, looking):
    encoded = encode(model, Prompt(**PROMPT))
    slots = slots_of(encoded.segments, encoded.tokens)
    rows, filled = slots.rows(looking), filler(model, Parameters())
    given = eager_parts(model, encoded.token_ids, slots, rows)
    everywhere = eager_parts(model, with_dummies(encoded.token_ids, slots, filled, range(4)), slots, rows)
    for row in study.table("scores", looking=looking).to_pylist():
        at = row["part"]
        dummy = eager_parts(model, with_dummies(encoded.token_ids, slots, filled, [at]), slots, rows)[at]
        assert row["raw"] == pytest.approx(given[at], abs=1e-6)
        assert row["dummy"] == pytest.approx(dummy, abs=1e-6)
        assert row["calibrated"] == pytest.approx(given[at] - dummy, abs=1e-6)
        assert row["cheap"] == pytest.approx(given[at] - everywhere[at], abs=1e-6)


def test_rankings_hold_every_part_once(study):
    for method in METHODS:
        parts = study.sql(f"SELECT part FROM rankings WHERE method = '{method}' AND looking = 'last' ORDER BY place")
        assert sorted(parts["part"].to_pylist()) == [0, 1, 2, 3]


def test_r02_the_null_query_is_read_behind_the_same_documents(model, study):
    asked = encode(model, Prompt(documents=DOCUMENTS, question="N/A"))
    slots = slots_of(asked.segments, asked.tokens)
    maps = eager_maps(model.model, {"input_ids": torch.tensor([asked.token_ids])}, torch.float64)
    truth = torch.stack(maps)[:, 0].flatten(0, 1)[:, slots.rows("question")].mean((0, 1)).numpy()
    rows = study.table("tokens").sort_by("position").to_pylist()
    np.testing.assert_allclose([row["null"] for row in rows], truth[: len(rows)], atol=1e-6)


def test_sinkfree_runs_take_the_sinks_of_the_first(model):
    found = run_study(STUDY, model, Parameters(prompt=PROMPT))
    for row in found.table("scores").to_pylist():
        assert row["raw"] > 0 and row["dummy"] > 0


def test_a_prefix_is_reused_only_where_that_is_exact(model):
    assert why_not_reusable(model) is None
    windowed = LoadedModel.wrap(build("mistral", vocab_size=300))
    assert "window" in why_not_reusable(windowed)
    growing = build("llama", rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0})
    assert "length of the text" in why_not_reusable(LoadedModel.wrap(growing))
    assert "later tokens" in why_not_reusable(LoadedModel.wrap(build("bert")))
    ids = encode(model, Prompt(**PROMPT)).token_ids
    kept = prefix_of(model, ids)
    other = [*ids[:40], 9, *ids[41:]]
    assert kept.shared(other, 60) == 40 and kept.shared(other, 20) == 20
    with session(model):
        again, whole = step(model, other[40:], kept.first(40)), step(model, other)
    torch.testing.assert_close(again.logits, whole.logits, atol=1e-4, rtol=1e-4)
    assert kept.cache.get_seq_length() == len(ids), "the prefix itself does not grow"


def test_bad_input_is_refused_in_words(model):
    with pytest.raises(Refused, match="question of its own"):
        run_study(STUDY, model, Parameters(prompt={"text": "the\n\ncat\n\nsat ?"}))
    with pytest.raises(Refused, match="neutral text"):
        Parameters(dummy=" ")
    assert DUMMY.strip()

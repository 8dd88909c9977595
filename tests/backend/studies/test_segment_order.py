"""B-08: bins, sensitivity, and the segment study of an encoder against its own states."""

import numpy as np
import pytest
import torch

from backend.basins.embedding import front_loading, place_effect, position_bins, position_sensitivity
from backend.basins.orders import cyclic, ordered, prompt_from
from backend.errors import Refused
from backend.models import LoadedModel
from backend.prompts import encode
from backend.studies import run_study
from backend.studies.segment_order import STUDY, Parameters
from tests.backend.tiny import build
from tests.backend.tiny_tokenizers import byte_level, wordpiece

PROMPT = {"text": "the cat\n\nunable table\n\na se the cat\n\nthe end"}


@pytest.fixture(scope="module")
def encoder():
    return LoadedModel.wrap(build("bert", vocab_size=100, max_position_embeddings=100), wordpiece())


def test_b08_bins_front_and_sensitivity():
    weights = np.arange(40.0)
    found = position_bins(weights, 0, 40)
    assert found[0] == 0 + 1 + 2 + 3 and found.sum() == weights.sum() and len(found) == 10
    even = position_bins(np.full(40, 1 / 40), 0, 40)
    np.testing.assert_allclose(even, 0.1)
    assert front_loading(even) == pytest.approx(0.2)
    assert position_sensitivity([0.5, 1.0]) == 0.5 and position_sensitivity([1.0, 1.0]) == 0
    assert np.isnan(position_sensitivity([0.0, 0.0]))


def test_b08_a_planted_place_effect_is_recovered():
    grid = 0.8 - 0.3 * np.linspace(0, 1, 5)[None] + np.zeros((5, 1))
    found = place_effect(grid)
    assert found.fit.slope == pytest.approx(-0.3) and found.fit.r2 == pytest.approx(1)
    assert found.psi == pytest.approx(1 - 0.5 / 0.8)
    assert place_effect(np.full((3, 3), 0.7)).fit.r2 is None


def test_b08_cosines_are_those_of_the_models_own_states(encoder):
    study = run_study(STUDY, encoder, Parameters(prompt=PROMPT))
    with torch.no_grad():
        for number, order in enumerate(cyclic(3, None)):
            ids = encode(encoder, ordered(prompt_from(PROMPT), order)).token_ids
            whole = encoder.model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0].mean(0)
            text = ["the cat", "unable table", "a se the cat"][order[0]]
            alone = encoder.tokenizer(text, return_tensors="pt")["input_ids"]
            part = encoder.model(alone, output_hidden_states=True).hidden_states[-1][0].mean(0)
            truth = float(torch.nn.functional.cosine_similarity(whole, part, 0))
            row = study.table("cosines", order=number, place=0).to_pylist()[0]
            assert row["cosine"] == pytest.approx(truth, abs=1e-5) and row["part"] == order[0]
    bins = study.table("bins").to_pylist()
    assert len(bins) == 2 * 4 * 10 and all(0 <= row["mass"] <= 1 for row in bins)
    assert study.table("effect").to_pylist()[0]["psi"] >= 0


def test_b08_pooling_by_the_first_token_looks_from_it(encoder):
    study = run_study(STUDY, encoder, Parameters(prompt=PROMPT, pooling="first"))
    assert study.table("fronts").num_rows == 8
    with pytest.raises(Refused, match="pooling"):
        Parameters(pooling="max")
    decoder = LoadedModel.wrap(build("llama", vocab_size=300), byte_level())
    with pytest.raises(Refused, match="no encoder"):
        run_study(STUDY, decoder, Parameters(prompt=PROMPT))


def test_b08_uniform_attention_is_over_the_keys_a_layer_sees():
    model = LoadedModel.wrap(build("modernbert", base=True, vocab_size=100, max_position_embeddings=100), wordpiece())
    bins = run_study(STUDY, model, Parameters(prompt=PROMPT, pooling="first")).table("bins").to_pylist()
    uniform = {layer: [r["uniform"] for r in bins if r["layer"] == layer and r["head"] == 0] for layer in (0, 1)}
    assert max(uniform[0]) - min(uniform[0]) < 0.2 and uniform[0][-1] > 0  # layer 0 sees all
    assert uniform[1][-1] == 0 and sum(uniform[1]) == pytest.approx(2 / 3)  # layer 1: itself, a begin token, and two

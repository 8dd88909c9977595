"""B-02, B-03, B-07: closed forms."""

import math

import numpy as np
import pytest
import torch

from backend.basins import rope
from backend.basins.distance import binned, by_distance, decay_fits, entropy_slope, log_bins, prior_fit
from backend.models import LoadedModel
from backend.pipeline import analyse
from backend.sink_free import sink_free_rows
from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec
from tests.backend.eager import eager_maps
from tests.backend.sinks.planted import sink_at, stored
from tests.backend.tiny import build, ids


def alibi(slope: float, n: int) -> dict:
    """Identical tokens: only the bias by distance is left."""
    zeros = torch.zeros(1, 1, n, 16)
    bias = torch.zeros(1, 2 * n - 1)
    bias[0, n - 1 :] = -slope * torch.arange(n)
    score = ScoreSpec(scale=1.0, bias_by_distance=bias)
    return attend(zeros, zeros, zeros, score, MeasureRequest(pooled=None, sampled=0, scores=True)).measures


@pytest.mark.parametrize(("slope", "n", "value"), [(0.5, 200, 1.541494), (1 / 256, 4096, 255.50)])
def test_b02_alibi_on_identical_tokens(slope, n, value):
    found = alibi(slope, n)
    distance = float(found["mean_distance"][0, 0, -1])
    if slope == 0.5:
        assert distance == pytest.approx(value, abs=1e-5)
        assert distance == pytest.approx(1 / (math.exp(slope) - 1), abs=1e-5)
    else:
        assert distance == pytest.approx(value, abs=0.01)


def test_b02_alibi_is_fitted_as_exponential_with_its_slope():
    found = alibi(1 / 16, 400)
    weight = (found["distance_sum"] / found["distance_rows"])[0, 0].double().numpy()
    row = torch.zeros(400, dtype=torch.float64).numpy() + np.exp(-np.arange(400) / 16)
    fits = decay_fits(row / row.sum(), np.full(400, 50))
    assert fits["exponential"].slope == pytest.approx(-1 / 16, abs=1e-9)
    assert fits["exponential"].r2 == pytest.approx(1)
    assert fits["power"].r2 < 0.95
    measured = decay_fits(weight, found["distance_rows"][0, 0].numpy())
    assert measured["exponential"].r2 > measured["power"].r2


def test_b02_a_power_law_is_recovered():
    weight = np.append(1.0, np.arange(1, 300.0) ** -1.3)
    found = decay_fits(weight, np.full(300, 40))
    assert found["power"].slope == pytest.approx(-1.3, abs=1e-9) and found["power"].r2 == pytest.approx(1)
    assert found["exponential"].r2 < 0.9


def test_b07_prior_of_alibi_is_laplace_with_its_slope():
    found = alibi(0.125, 200)
    prior = prior_fit(found["distance_score"][0, 0].double().numpy(), found["distance_rows"][0, 0].numpy())
    assert prior.beta == pytest.approx(1) and prior.alpha == pytest.approx(8, rel=1e-4) and prior.r2 == pytest.approx(1)


def test_b07_a_gaussian_prior_and_none():
    distance = np.arange(100.0)
    prior = prior_fit(-((distance / 12) ** 2), np.full(100, 50))
    assert prior.beta == pytest.approx(2) and prior.alpha == pytest.approx(12) and prior.r2 == pytest.approx(1)
    noise = prior_fit(np.random.default_rng(0).normal(size=2000), np.full(2000, 50))
    assert noise.r2 < 0.05
    assert prior_fit(np.zeros(100), np.full(100, 50)).r2 is None, "a flat score has no prior that could be fitted"


def test_b07_entropy_slope_is_one_for_uniform_and_zero_for_a_sharp_head():
    visible = np.arange(1, 65)
    assert entropy_slope(np.log(visible), visible).slope == pytest.approx(1)
    assert entropy_slope(np.zeros(64), visible).slope == pytest.approx(0)


def test_b02_log_bins():
    assert log_bins(20) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (6, 8), (8, 12), (12, 16), (16, 20)]
    assert log_bins(1) == [(0, 1)] and log_bins(3)[-1] == (2, 3)
    rows = np.arange(8, 0, -1)
    found = binned(np.arange(8.0), rows)
    assert found[4] == pytest.approx((4 * 4 + 5 * 3) / 7)


def test_b02_from_an_analysis_equals_eager():
    model = LoadedModel.wrap(build("llama"))
    tokens = ids(40)[0].tolist()
    analysis = analyse(model, tokens)
    maps = eager_maps(model.model, {"input_ids": torch.tensor([tokens])}, torch.float64)
    for layer in (0, 1):
        found = by_distance(analysis, layer, sinkfree=False)
        for distance in (0, 1, 7, 39):
            truth = torch.diagonal(maps[layer][0], -distance, 1, 2).mean(-1).numpy()
            np.testing.assert_allclose(found.weight[:, distance], truth, atol=1e-5)
        assert found.uniform[39] == pytest.approx(1 / 40) and found.rows[0, 39] == 1
    sums = by_distance(analysis, 0).weight * by_distance(analysis, 0).rows
    left = [sink_free_rows(analysis, 0, head, slice(0, 40))[1].any(-1).sum() for head in range(8)]
    np.testing.assert_allclose(np.nansum(sums, -1), left, rtol=1e-4, err_msg="rows with anything left add up to one")


def test_b02_rows_with_nothing_left_are_at_no_distance(tmp_path):
    query, key, score = sink_at(40, 0, 1.0)
    query[0, :20, 0] = 25.0  # these rows give token 0 all but 1e-9
    found = by_distance(stored(tmp_path, [(query, key, score)]), 0)
    assert found.rows[0, 0] == 20 and found.rows[0, 19] == 20 and found.rows[0, 38] == 1
    assert found.weight[0, 0] == pytest.approx(np.mean([1 / row for row in range(20, 40)]), abs=1e-6)
    assert found.uniform[0] == pytest.approx(found.weight[0, 0], abs=1e-6)


@pytest.mark.parametrize(
    ("base", "values", "longest"),
    [
        (1e4, [1, 0.9702, 0.6203, 0.3207, -0.0529, 0.0565], 54_410),
        (5e5, [1, 0.9779, 0.7295, 0.5595, 0.3828, 0.2097], 2_559_196),
    ],
)
def test_b03_wave_of_a_base(base, values, longest):
    frequencies = rope.frequencies_of(base, 128)
    np.testing.assert_allclose(rope.wave(frequencies, np.array([0, 1, 16, 256, 4096, 32768])), values, atol=6e-5)
    assert rope.longest_wavelength(frequencies) == pytest.approx(longest, abs=1)


def test_b03_a_model_tells_its_own_frequencies():
    model = LoadedModel.wrap(build("llama"))
    facts = rope.rotary_facts(model)
    np.testing.assert_allclose(facts["frequencies"], rope.frequencies_of(facts["base"], 8), rtol=1e-6)
    assert facts["trained"] == 128 and facts["scaling"] == "default" and facts["halves"]
    assert rope.rotary_facts(LoadedModel.wrap(build("gpt2"))) is None
    scaled = build("llama", rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0})
    np.testing.assert_allclose(
        rope.rotary_facts(LoadedModel.wrap(scaled))["frequencies"], rope.frequencies_of(1e4, 8) / 4, rtol=1e-6
    )


def test_b02_content_free_score_is_exact_where_contents_do_not_depend_on_place():
    from backend.rotary import Rotary

    frequencies = rope.frequencies_of(1e4, 8)
    draw = torch.Generator().manual_seed(0)
    content = [torch.randn(8, generator=draw).expand(50, 8) for _ in range(2)]
    rotary = Rotary(torch.tensor(frequencies))
    query, key = (rotary.rotate(one, 0) for one in content)
    found = rope.content_free(query, key, frequencies, 0.5, 50)
    for distance in (0, 1, 13, 49):
        assert found[distance] == pytest.approx(float(query[49] @ key[49 - distance]) * 0.5, abs=1e-4)


def test_b03_an_analysis_keeps_the_rotary_facts():
    analysis = analyse(LoadedModel.wrap(build("llama")), ids(20)[0].tolist())
    assert analysis.info["rotary"]["base"] == 10000.0 and len(analysis.info["rotary"]["frequencies"]) == 4

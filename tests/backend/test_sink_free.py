"""The view without sinks (K-05)."""

import numpy as np
import pytest
import torch

from backend import statistics
from backend.detected import sinks_of
from backend.sink_free import (
    hiding_rows,
    sink_free_measures,
    sink_free_rows,
    sink_free_statistics,
    without_sinks,
)
from backend.sinks.kept import kept_layer
from kernels.api import attend
from kernels.score import ScoreSpec
from tests.backend.sinks.planted import sink_at, stored


def test_rows_are_brought_back_to_one_in_proportion(tmp_path):
    analysis = stored(tmp_path, [sink_at(40, 0, 3.0)])
    assert sinks_of(analysis, 0, 0) == (0,)
    weights, seen, sinks = sink_free_rows(analysis, 0, 0, slice(0, 40))
    assert sinks == (0,) and not seen[:, 0].any() and (weights[1:, 0] == 0).all()
    assert weights[1:].sum(-1) == pytest.approx(np.ones(39))
    dense = analysis.map(0, 0)
    assert weights[20] == pytest.approx(np.where(np.arange(40) == 0, 0, dense[20] / (1 - dense[20, 0])), abs=1e-6)


def test_a_row_with_nothing_left_has_no_view(tmp_path):
    analysis = stored(tmp_path, [sink_at(40, 0, 3.0)])
    weights, seen, _ = sink_free_rows(analysis, 0, 0, slice(0, 40))
    assert np.isnan(weights[0]).all() and not seen[0].any()  # row 0 sees only the sink
    almost = np.array([[1 - 5e-7, 5e-7], [1 - 2e-6, 2e-6]])
    shares, left = without_sinks(almost, np.ones((2, 2), bool), (0,))
    assert (
        np.isnan(shares[0]).all() and shares[1].tolist() == [0.0, 1.0] and left.tolist() == [[False] * 2, [False, True]]
    )


def test_a_learned_sink_is_taken_out_too(tmp_path):
    query, key = torch.zeros(2, 20, 4), torch.zeros(2, 20, 4)
    analysis = stored(tmp_path, [(query, key, ScoreSpec(scale=1.0, sink=torch.tensor([2.0, 0.0])))])
    weights, _, _ = sink_free_rows(analysis, 0, 0, slice(5, 20))
    assert weights.sum(-1) == pytest.approx(np.ones(15))
    values = sink_free_statistics(analysis, 0)
    seen = [np.log(max(1, row + 1 - sum(k <= row for k in sinks_of(analysis, 0, 0)))) for row in range(20)]
    first = [row for row in range(20) if row + 1 > sum(k <= row for k in sinks_of(analysis, 0, 0))]
    assert values["entropy"][0] == pytest.approx(np.mean([seen[row] for row in first]), abs=1e-5)


def test_statistics_are_those_of_the_renormalised_dense_map(tmp_path):
    generator = torch.Generator().manual_seed(5)
    query = torch.randn(4, 48, 8, generator=generator)
    key = torch.randn(2, 48, 8, generator=generator)
    query[..., 0], key[:, 0, 0], key[:, 9, 0] = 3.0, 5.0, 4.0
    analysis = stored(tmp_path, [(query, key, ScoreSpec(scale=0.35))])
    values = sink_free_statistics(analysis, 0)
    assert set(values) == set(statistics.all())
    for head in range(4):
        weights, seen, sinks = sink_free_rows(analysis, 0, head, slice(0, 48))
        assert 0 in sinks
        rows = seen.any(-1)
        logs = np.log(np.where(weights > 0, weights, 1.0))
        entropy = -(weights * logs)[rows].sum(-1)
        assert values["entropy"][head] == pytest.approx(entropy.mean(), abs=1e-5)
        choice = seen.sum(-1) >= 2
        assert values["max_weight"][head] == pytest.approx(weights[choice].max(-1).mean(), abs=1e-5)
        apart = np.abs(np.subtract.outer(np.arange(48), np.arange(48)))
        distance = (weights * apart)[choice].sum(-1)
        assert values["mean_distance"][head] == pytest.approx(distance.mean(), abs=1e-4)
        assert np.isnan(values["first_mass"][head])  # the first token is out of sight


def rows_that_lose_all(n: int = 40, lost: int = 20) -> list:
    """One head: the first rows give all but 1e-9 to token 0, the others three tenths."""
    query, key, score = sink_at(n, 0, 1.0)
    query[0, :lost, 0] = 25.0
    return [(query, key, score)]


def test_rows_that_gave_everything_to_sinks_are_in_no_sum(tmp_path):
    analysis = stored(tmp_path, rows_that_lose_all())
    _, seen, sinks = sink_free_rows(analysis, 0, 0, slice(0, 40))
    gone = ~seen.any(-1)
    assert sinks == (0,) and gone[:20].all() and not gone[20:].any()
    measures = sink_free_measures(analysis, kept_layer(analysis, 0), "self", 0.1, 16)
    assert float(measures["distance_sum"].sum()) == pytest.approx(20, abs=1e-4)
    assert int(measures["visible_keys"][0, :20].sum()) == 0
    assert sink_free_statistics(analysis, 0)["local_mass_64"][0] == pytest.approx(1, abs=1e-5)


def test_rows_are_hidden_beside_biases_of_rows():
    query, key = (torch.randn(1, 2, 6, 4, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    groups = torch.tensor([0, -1, 1, -1, 0, -1])
    score = ScoreSpec(scale=1.0, key_bias=torch.zeros(1, 2, 6), row_bias=torch.randn(1, 1, 6, 2), row_bias_keys=groups)
    hidden = torch.zeros(1, 2, 6, dtype=torch.bool)
    hidden[0, 1, 4] = True
    plain, found = (attend(query, key, key, one) for one in (score, hiding_rows(score, hidden)))
    assert torch.isneginf(found.lse[hidden]).all() and (found.output[hidden] == 0).all()
    torch.testing.assert_close(found.output[~hidden], plain.output[~hidden])


def test_a_head_without_sinks_stays_as_it_is(tmp_path):
    generator = torch.Generator().manual_seed(6)
    query, key = (torch.randn(1, 60, 8, generator=generator) * 0.1 for _ in range(2))
    analysis = stored(tmp_path, [(query, key, ScoreSpec(scale=0.35))])
    assert sinks_of(analysis, 0, 0) == ()
    for name, value in sink_free_statistics(analysis, 0).items():
        assert value[0] == pytest.approx(analysis.statistic(name)[0, 0], abs=1e-5, nan_ok=True), name
    pooled = stored(tmp_path, [(query, key, ScoreSpec(scale=0.35))], exact=())
    assert all(np.isnan(value).all() for value in sink_free_statistics(pooled, 0).values())

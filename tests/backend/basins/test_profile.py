"""B-01, R-04, K-05: fixtures with known answers."""

import numpy as np
import pytest

from backend.basins import relevance
from backend.basins.profile import additive, band, shape
from backend.basins.received import received
from backend.basins.slots import Slot, Slots
from backend.sink_free import without_sinks

SLOTS = Slots(
    "document", tuple(Slot(f"document {k + 1}", 4 + 6 * k, 9 + 6 * k) for k in range(5)), Slot("q", 36, 40), 39
)


def uniform_rows(first: int, stop: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    seen = np.arange(n)[None] <= np.arange(first, stop)[:, None]
    return seen / seen.sum(-1, keepdims=True), seen


def profile_of(weights, seen, sinks=None, *, per_token=True):
    from backend.basins.basin import part_mass

    found = received(weights, seen, sinks)
    return np.array([part_mass(found.weight[p.start : p.stop], per_token) for p in SLOTS.parts]), found


def test_b01_uniform_attention_gives_a_flat_profile_and_depth_zero():
    weights, seen = uniform_rows(36, 40, 40)
    profile, found = profile_of(weights, seen)
    assert np.ptp(profile) < 1e-15
    assert shape(profile).depth == pytest.approx(0, abs=1e-12)
    assert shape(profile).primacy == pytest.approx(1) and shape(profile).curvature == pytest.approx(0, abs=1e-12)
    assert profile[0] == pytest.approx(np.mean([1 / n for n in (37, 38, 39, 40)]))
    np.testing.assert_allclose(found.weight[:36], found.uniform[:36])


def test_b01_a_planted_u_is_recovered():
    planted = np.array([3.0, 1.5, 0.5, 1.0, 2.0])
    row = np.full(40, 0.1)
    for part, value in zip(SLOTS.parts, planted, strict=True):
        row[part.start : part.stop] = value
    weights = np.tile(row / row.sum(), (4, 1))
    profile, _ = profile_of(weights, np.ones((4, 40), bool))
    np.testing.assert_allclose(profile / profile.sum(), planted / planted.sum())
    found = shape(profile)
    assert found.depth == pytest.approx(1 - 0.5 / 2.5)
    assert found.primacy == pytest.approx(3 / 1.6) and found.recency == pytest.approx(2 / 1.6)
    assert found.trough == pytest.approx(2 / 4)
    assert found.curvature > 0
    totals, _ = profile_of(weights, np.ones((4, 40), bool), per_token=False)
    np.testing.assert_allclose(totals, profile * 5)


def test_b01_too_few_slots_leave_the_depth_undefined():
    assert shape(np.array([0.2, 0.1])).depth is None
    assert shape(np.array([0.2, 0.1])).primacy == pytest.approx(0.2 / 0.15)
    assert shape(np.array([0.2])).primacy is None
    assert shape(np.array([0.2, np.nan, 0.1])).depth is None, "a slot out of reach is not a slot with nothing"


def test_k05_rows_sum_to_one_without_their_sinks():
    weights, seen = uniform_rows(36, 40, 40)
    weights = weights * 0.2
    weights[:, 0] += 0.8
    sinks = (0,)
    kept, visible = without_sinks(weights, seen, sinks)
    np.testing.assert_allclose(kept.sum(-1), 1)
    assert not visible[:, 0].any()
    np.testing.assert_allclose(kept[0, 1:37], 1 / 36)
    profile, found = profile_of(weights, seen, sinks)
    assert np.isnan(found.weight[0]) and np.ptp(profile) < 1e-15
    assert profile[0] == pytest.approx(np.mean([1 / n for n in range(36, 40)]))


def test_k05_a_row_that_gives_all_to_the_sink_says_nothing():
    weights, seen = np.zeros((2, 40)), np.ones((2, 40), bool)
    weights[0, 0], weights[1] = 1.0, 1 / 40
    profile, _ = profile_of(weights, seen, (0,))
    np.testing.assert_allclose(profile, 1 / 39)


def test_b01_a_slot_out_of_the_window_is_not_a_zero():
    weights, seen = np.zeros((1, 40)), np.zeros((1, 40), bool)
    seen[:, 20:] = True
    weights[:, 20:] = 1 / 20
    profile, _ = profile_of(weights, seen)
    assert np.isnan(profile[:2]).all() and profile[2:] == pytest.approx(1 / 20)


def test_b01_content_and_position_are_separated():
    content, position = np.array([0.3, -0.1, -0.2, 0.0]), np.array([0.5, -0.3, -0.4, 0.2])
    documents = np.array([[(slot - shift) % 4 for slot in range(4)] for shift in range(4)])
    found = additive(1.0 + content[documents] + position, documents)
    np.testing.assert_allclose(found.content, content, atol=1e-12)
    np.testing.assert_allclose(found.position, position, atol=1e-12)
    assert found.mean == pytest.approx(1) and found.r2 == pytest.approx(1)
    assert found.r2_content + found.r2_position == pytest.approx(1)
    assert additive(np.ones((4, 4)), documents).r2 is None


def test_b01_an_interaction_lowers_r2():
    draws = np.random.default_rng(0)
    documents = np.array([[(slot - shift) % 5 for slot in range(5)] for shift in range(5)])
    found = additive(draws.normal(size=(5, 5)), documents)
    assert 0 < found.r2 < 0.9


def test_b01_band_over_permutations():
    samples = np.random.default_rng(1).normal(2.0, 1.0, (200, 3))
    low, high = band(samples)
    assert ((low < samples.mean(0)) & (samples.mean(0) < high)).all()
    np.testing.assert_allclose(high - low, 2 * 1.96 / np.sqrt(200), rtol=0.2)
    assert np.isnan(band(samples[:1])[0]).all()


def test_r04_three_scores():
    tokens = np.full(40, 0.01)
    tokens[4], tokens[28:33] = 0.3, 0.05
    found = relevance.scores(tokens, SLOTS)
    np.testing.assert_allclose(found["total"], [0.34, 0.05, 0.05, 0.05, 0.25])
    np.testing.assert_allclose(found["mean"], found["total"] / 5)
    np.testing.assert_allclose(found["top"], found["mean"], err_msg="parts of fewer than ten tokens: all of them")
    assert relevance.ranking(found["total"]) == [0, 4, 1, 2, 3]


def test_r04_metrics():
    order = [3, 1, 0, 2]
    assert relevance.recall_at(order, {1}, 1) == 0 and relevance.recall_at(order, {1, 3}, 2) == 1
    assert relevance.ndcg_at(order, {1}) == pytest.approx(1 / np.log2(3))
    assert relevance.ndcg_at(order, {3}) == 1
    assert relevance.reciprocal_rank(order, {0}) == pytest.approx(1 / 3)
    assert relevance.recall_at(order, set(), 3) is None
    assert relevance.spearman([1, 2, 3], [10, 20, 25]) == pytest.approx(1)
    assert relevance.spearman([1, 1, 1], [1, 2, 3]) is None

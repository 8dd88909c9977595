"""B-04, B-05, B-06, R-02: toys with known answers."""

import itertools

import numpy as np
import pytest

from backend.basins.calibration import calibrated, dummy_ids, null_calibrated, redistribution, with_dummies
from backend.basins.ordering import attention_rank, sorted_by_attention
from backend.basins.relevance import ranking
from backend.basins.slots import Slot, Slots
from tests.backend.basins.test_profile import SLOTS


def test_b04_toy_to_six_digits():
    found = calibrated([0.5, 0.2, 0.3], [0.4, 0.1, 0.05])
    np.testing.assert_allclose(found, [0.1, 0.1, 0.25], atol=1e-12)
    np.testing.assert_allclose(redistribution(found, 0.05), [0.045279, 0.045279, 0.909443], atol=5e-7)
    assert redistribution([0.1, np.nan], 0.05)[1] == 0


def test_b04_relevance_plus_bias_is_ranked_by_relevance():
    draws = np.random.default_rng(0)
    for _ in range(50):
        relevance, bias = draws.normal(size=8), 5 * draws.normal(size=8)
        order = draws.permutation(8)  # order[s] stands at place s
        attention, dummy = relevance[order] + bias, 0.3 + bias
        found = ranking(calibrated(attention, dummy))
        assert [order[place] for place in found] == ranking(relevance)


def test_b04_dummies_have_the_length_of_what_they_replace():
    assert dummy_ids([7, 8, 9], 5) == [7, 8, 9, 7, 8] and dummy_ids([7], 0) == []
    changed = with_dummies(range(40), SLOTS, [99, 98], [1, 4])
    assert len(changed) == 40 and changed[10:15] == [99, 98, 99, 98, 99]
    assert [a for a, b in enumerate(changed) if a != b] == [*range(10, 15), *range(28, 33)]


def test_b05_sorting_is_idempotent_and_puts_the_relevant_part_last():
    relevance = np.array([0.1, 0.9, 0.3, 0.2])
    order = sorted_by_attention(relevance)
    assert order == [0, 3, 2, 1]
    assert sorted_by_attention(relevance[order]) == [0, 1, 2, 3], "the second reading finds it sorted"


def test_b06_best_parts_go_to_both_ends_of_a_u():
    profile = [0.4, 0.2, 0.1, 0.15, 0.5]
    relevance = [0.1, 0.9, 0.5, 0.7, 0.2]
    order = attention_rank(relevance, profile)
    assert order[-1] == 1 and order[0] == 3
    best = max(itertools.permutations(range(5)), key=lambda o: sum(relevance[o[s]] * profile[s] for s in range(5)))
    assert order == list(best)


def test_r02_a_null_query_that_is_the_query_gives_zero():
    weights = np.random.default_rng(1).random(40)
    assert (null_calibrated(weights, weights, SLOTS) == 0).all()


def test_r02_drops_what_lies_far_below():
    one = Slots("document", (Slot("document 1", 0, 20),), None, 39)
    question, null = np.full(40, 0.02), np.full(40, 0.01)
    question[10] = -1.0
    assert null_calibrated(question, null, one)[0] == pytest.approx(19 * 0.01)
    assert np.isnan(null_calibrated(np.full(40, np.nan), null, one)).all()

"""Coverage and alignment of a cross-attention, against closed forms (methods X-01, X-02)."""

import math

import numpy as np
import pytest

from backend.alignment import Alignment, alignment_of
from backend.models import LoadedModel
from backend.pipeline import analyse
from tests.backend import tiny_more

EVERYTHING = np.ones((5, 5), bool)


def test_the_identity_covers_once_and_is_monotone():
    found = Alignment(np.eye(5), EVERYTHING)
    assert found.coverage.tolist() == [1.0] * 5 and found.even == 1.0
    assert found.coverage_deviation == 0.0 and found.absentmindedness == 0.0
    assert found.best.tolist() == [0, 1, 2, 3, 4] and found.monotonicity == pytest.approx(1.0)


def test_a_permutation_is_covered_once_and_has_the_rank_correlation_of_its_order():
    order = [4, 3, 2, 1, 0]
    found = Alignment(np.eye(5)[order], EVERYTHING)
    assert found.coverage_deviation == 0.0 and found.monotonicity == pytest.approx(-1.0)
    swapped = Alignment(np.eye(5)[[1, 0, 2, 3, 4]], EVERYTHING)
    assert swapped.monotonicity == pytest.approx(1 - 6 * 2 / (5 * 24))  # 1 - 6 sum d^2 / (n (n^2 - 1))


def test_uniform_attention_looks_everywhere():
    found = Alignment(np.full((3, 8), 1 / 8), np.ones((3, 8), bool))
    assert found.absentmindedness == pytest.approx(-math.log(8))
    assert found.coverage.tolist() == pytest.approx([3 / 8] * 8) and found.even == 3 / 8
    assert found.coverage_deviation == pytest.approx(-math.log1p((1 - 3 / 8) ** 2))
    assert math.isnan(found.monotonicity)


def test_rows_that_see_nothing_are_left_out():
    weights, visible = np.eye(4), np.ones((4, 4), bool)
    weights[1], visible[1] = 0.0, False
    found = Alignment(weights, visible)
    assert found.coverage.tolist() == [1, 0, 1, 1] and found.even == 0.75
    assert found.absentmindedness == 0.0 and found.monotonicity == pytest.approx(1.0)


@pytest.mark.parametrize("model_type", ["t5", "bart"])
def test_coverage_is_what_the_keys_received(model_type):
    found = analyse(LoadedModel.wrap(tiny_more.build(model_type)), list(range(3, 15)))
    own = alignment_of(found, 1, [2])
    received = found.keys(kind="cross", layer=1, head=2)["received_sum"].to_numpy()
    assert np.abs(own.coverage - received).max() <= 1e-5
    mean = alignment_of(found, 1, [0, 1, 2, 3])
    assert np.abs(mean.weights - np.mean([found.map(1, h, kind="cross") for h in range(4)], 0)).max() <= 1e-6
    assert own.weights.shape[1] == 12

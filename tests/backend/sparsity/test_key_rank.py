"""Ranks of keys, steps that follow each other, and what is local, against planted cases."""

import numpy as np
import pytest

from backend.sparsity import key_rank, local, successive
from backend.sparsity.rows import rows_from, uniform_rows
from tests.backend.policies.planted import dense, layer
from tests.backend.sparsity.test_rows import planted

DRAW = np.random.default_rng(0)


def test_p14_planted_rank_and_rotation():
    keys = DRAW.normal(size=(500, 3)) @ DRAW.normal(size=(3, 16)) + 5
    found = key_rank.components(keys)
    assert found.rank(0.999) == 3
    turn = np.linalg.qr(DRAW.normal(size=(16, 16)))[0]
    assert key_rank.components(keys @ turn).variance == pytest.approx(found.variance, abs=1e-9)
    assert key_rank.components(np.ones((9, 4))).rank(0.9) is None


def test_p14_isotropic_keys_take_58_of_64():
    assert key_rank.components(DRAW.normal(size=(200_000, 64))).rank(0.9) == 58


def test_p14_recall_grows_to_one():
    one = layer(n=99, length=100, heads=1, key_heads=1)
    rows = rows_from(dense(one)[0].numpy(), np.tril(np.ones((100, 100), bool)), np.arange(100))
    query, key = one.query[0].double().numpy(), one.key[0].double().numpy()
    recall = key_rank.score_recall(rows, query, key, key_rank.components(key), [1, 4, 8])
    assert recall[2] == pytest.approx(1) and recall[0] < recall[1] < 1
    short = rows_from(rows.weights[:5], rows.visible[:5], rows.position[:5])
    assert np.isnan(key_rank.score_recall(short, query[:5], key, key_rank.components(key), [8])[0])


def test_the_strongest_are_the_first_of_equals_and_never_hidden():
    values = np.array([[1.0, 2, 2, 2, 0], [5, 1, 1, 9, 9]])
    seen = np.array([[True] * 5, [True, True, True, False, False]])
    found = key_rank.strongest_of(values, seen, np.array([2, 2]))
    assert found.tolist() == [[False, True, True, False, False], [True, True, False, False, False]]
    draw = np.random.default_rng(4)
    values, seen = draw.integers(0, 6, (50, 40)).astype(float), draw.random((50, 40)) < 0.7
    count = np.maximum(1, (seen.sum(-1) * draw.random(50)).astype(int))
    order = np.argsort(-np.where(seen, values, -np.inf), axis=1, kind="stable")
    expected = np.zeros_like(seen)
    for row, (places, most) in enumerate(zip(order, count, strict=True)):
        expected[row, places[:most]] = True
    assert (key_rank.strongest_of(values, seen, count) == expected).all()


def test_components_of_several_heads_are_those_of_each():
    keys = DRAW.normal(size=(3, 50, 6))
    together = key_rank.components(keys)
    for head in range(3):
        assert together[head].variance == pytest.approx(key_rank.components(keys[head]).variance)
        assert together[head].rank(0.9) == key_rank.components(keys[head]).rank(0.9)


def test_w05_ranks_of_a_product():
    left, right = DRAW.normal(size=(40, 6)), DRAW.normal(size=(30, 6))
    singular = key_rank.product_singular(left, right)
    assert singular == pytest.approx(np.linalg.svd(left @ right.T, compute_uv=False)[:6])
    assert key_rank.numerical_rank(singular, 40, 30) == 6
    left[:, 5] = left[:, 4]
    right[:, 5] = right[:, 4]
    assert key_rank.numerical_rank(key_rank.product_singular(left, right), 40, 30) == 5
    assert key_rank.effective_rank(np.array([2.0, 2, 2, 2])) == pytest.approx(4)
    assert key_rank.effective_rank(np.array([3.0, 0, 0])) == pytest.approx(1)
    assert key_rank.effective_rank(np.zeros(3)) == 0


def test_p11_a_head_that_looks_back_by_one_moves_with_the_text():
    found = successive.steps(planted(60, lambda i: i - 1, strength=20))
    assert found.same_distance[5:].min() > 0.999 and found.same_place[5:].max() < 0.01
    assert found.recovered[5:].max() < 1, "the strongest keys of the row before are older by one"
    sink = successive.steps(planted(60, lambda i: 0, strength=20))
    assert sink.same_place[5:].min() > 0.999 and sink.recovered[5:].min() > 0.999
    assert len(sink.position) == 59 and sink.position[0] == 1


def test_p12_local_suffices():
    assert local.local_suffices(planted(300, lambda i: i - 1, strength=20), window=16) == 1
    rows = uniform_rows(100)
    mass = local.local_mass(rows, window=10, first=4)
    assert mass[-1] == pytest.approx(14 / 100) and mass[:14] == pytest.approx(np.ones(14))
    assert local.local_suffices(rows, window=10, first=4) == pytest.approx(14 / 100)


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("window, first", [(1, 0), (7, 4), (300, 2), (5, 200)])
def test_p12_near_mass_is_the_mass_under_its_mask(window, first, two_sided, monkeypatch):
    draw = np.random.default_rng(6)
    distance = np.arange(90)[:, None] - np.arange(90)[None]
    seen = (two_sided | (distance >= 0)) & (np.abs(distance) < 40)
    rows = rows_from(draw.random((90, 90)), seen, np.arange(90))
    expected = (rows.weights * local.local_mask(rows, window, first)).sum(-1)
    assert local.local_mass(rows, window, first) == pytest.approx(expected, abs=1e-12)
    monkeypatch.setattr(local, "numba_is_here", lambda: False)
    assert local.local_mass(rows, window, first) == pytest.approx(expected, abs=1e-12)


def test_l02_the_gaussian_picture_of_the_other_keys():
    """20,000 Gaussian keys at a spread of 2.83: 14.18 exactly, 14.09 predicted in the source's own draw."""
    key = DRAW.normal(size=(20_000, 32))
    query = DRAW.normal(size=32)
    query *= 2.83 / np.linalg.norm(query)
    inside = np.zeros(20_000, bool)
    inside[:10] = True
    predicted, residual = local.one_row(query, key, 1.0, inside, ~inside)
    raised = np.exp(key @ query)
    assert abs(residual) < 0.3 and predicted == pytest.approx(raised[inside].sum() / raised.sum(), abs=0.01)
    assert np.log(19_990) + 2.83**2 / 2 == pytest.approx(13.91, abs=0.01)


def test_l02_agreement_of_prediction_and_truth():
    one = layer(n=199, length=200, heads=1, key_heads=1, strength=1.0)
    rows = rows_from(dense(one)[0].numpy(), np.tril(np.ones((200, 200), bool)), np.arange(200))
    query, key = one.query[0].double().numpy(), one.key[0].double().numpy()
    found = local.predict(rows, query, key, 8**-0.5, window=100, tau=0.7)
    assert found.true == pytest.approx(local.local_mass(rows, 100)[found.position], abs=1e-6)
    assert found.agreement > 0.9 and found.auroc > 0.95
    assert local.predict(rows, query, key, 8**-0.5, window=300) is None
    flat = local.Predicted(np.arange(3), np.ones(3), np.ones(3), np.zeros(3), 0.6)
    assert flat.auroc is None and flat.agreement == 1


def test_l02_the_true_share_is_that_of_the_real_weights():
    """A head whose weights come from a bias (ALiBi, a softcap ...): products alone would call it uniform."""
    rows = planted(120, lambda i: i - 1, strength=20)
    found = local.predict(rows, np.zeros((120, 8)), DRAW.normal(size=(120, 8)), 1.0, window=10)
    assert found.true.min() > 0.999 and found.predicted.mean() < 0.5

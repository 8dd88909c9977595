"""Concentration, patterns and retained mass against values that can be worked out by hand (docs/methods.md)."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from backend.map_sizes import MapSize
from backend.sparsity import concentration as c
from backend.sparsity import lognormal, patterns, retained, sums
from backend.sparsity.rows import Rows, measured_note, measured_rows, rows_from, uniform_rows

DYADIC = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16]


def row(weights):
    weights = np.array([weights], np.float64)
    return rows_from(weights, np.ones_like(weights, bool), np.array([weights.shape[1] - 1]))


def planted(n, target, strength=8.0):
    """Causal rows whose score is `strength` on the target of each row and 0 elsewhere."""
    score = np.zeros((n, n))
    for i in range(n):
        if 0 <= target(i) <= i:
            score[i, target(i)] = strength
    visible = np.tril(np.ones((n, n), bool))
    weights = np.where(visible, np.exp(score), 0.0)
    return rows_from(weights / weights.sum(-1, keepdims=True), visible, np.arange(n))


def test_p01_keys_for_a_share():
    uniform = row([0.01] * 100)
    assert c.keys_for(uniform, 0.9)[0] == 90
    assert c.keys_for(row([0, 1, 0]), 0.9)[0] == 1
    assert c.keys_for(row(DYADIC), 0.9)[0] == 4


def test_p01_the_curve_of_uniform_attention_is_the_diagonal():
    shares = np.array([0.0, 0.25, 0.5, 1.0])
    assert c.coverage_curve(row([0.01] * 100), shares) == pytest.approx(shares)
    assert np.isnan(c.coverage_curve(row([1.0]), shares)).all()


def test_h01_h02_the_dyadic_row():
    dyadic = row(DYADIC)
    assert c.entropy(dyadic)[0] == pytest.approx(15 / 8 * math.log(2))
    assert c.gini(dyadic)[0] == pytest.approx(0.425)
    square = (dyadic.weights**2).sum(-1)
    assert square[0] == pytest.approx(0.3359375)
    assert c.hoyer(square, dyadic.counts)[0] == pytest.approx(0.413200, abs=1e-6)
    assert c.concentration(dyadic)["participation"] == pytest.approx(2.976744, abs=1e-6)


def test_h02_the_ends_of_the_scales():
    assert c.gini(row([0.25] * 4))[0] == pytest.approx(0, abs=1e-12)
    assert c.gini(row([0, 0, 1, 0]))[0] == pytest.approx(3 / 4)
    assert c.hoyer(np.array([0.25, 1.0]), np.array([4, 4])) == pytest.approx([0.0, 1.0])
    assert np.isnan(c.gini(row([1.0]))[0]) and np.isnan(c.hoyer(np.array([1.0]), np.array([1])))[0]


def test_p02_thresholds_are_strict():
    found = c.below_thresholds(row([0.01] * 100))
    assert found["under_1_uniform"] == 0 and found["under_0.001"] == 0
    found = c.below_thresholds(row([0.9991, 0.0009, 0.0, 0.0]))
    assert found["under_0.001"] == 3 / 4 and found["under_0.0001"] == 2 / 4


def test_invisible_cells_are_no_small_weights():
    """The same weights with keys that may not be seen beside them give the same numbers."""
    weights = np.array([[*DYADIC, 0, 0, 0]])
    visible = np.array([[True] * 5 + [False] * 3])
    hidden = rows_from(weights, visible, np.array([4]))
    assert c.concentration(hidden) == c.concentration(row(DYADIC))
    assert lognormal.fit(rows_from(np.repeat(weights, 2, 0), np.repeat(visible, 2, 0), np.array([4, 4]))) is None
    visible_pairs = int(hidden.visible.sum())
    assert all(path.pairs[-1] == visible_pairs for path in patterns.paths(hidden).values())


@pytest.mark.parametrize(
    "sigma, entropy, share_90, share_95",
    [(0.5, 12.0811, 0.7828, None), (1.0, 11.7061, 0.6109, 0.7405), (1.5, 11.0811, 0.4135, None)],
)
def test_p03_log_normal_rows(sigma, entropy, share_90, share_95):
    n = 200_000
    score = np.random.default_rng(0).normal(0, sigma, n)
    weights = np.exp(score) / np.exp(score).sum()
    found = lognormal.fit(row(weights))
    assert found.sigma == pytest.approx(sigma, rel=0.01) and found.temperature == pytest.approx(1 / sigma, rel=0.01)
    assert found.predicted_entropy == pytest.approx(entropy, abs=5e-3)
    assert abs(found.entropy_misfit) < 0.02
    assert abs(found.skewness) < 0.03 and abs(found.excess_kurtosis) < 0.05
    assert lognormal.share_of_keys(0.9, sigma) == pytest.approx(share_90, abs=1e-4)
    assert c.keys_for(row(weights), 0.9)[0] / n == pytest.approx(share_90, abs=3e-3)
    if share_95 is not None:
        assert found.predicted_share_95 == pytest.approx(share_95, abs=2e-3)


def test_p03_a_row_of_equal_scores_has_no_picture():
    assert lognormal.fit(row([0.05] * 20)) is None and lognormal.histogram(row([0.05] * 20)) is None
    assert lognormal.histogram(row(DYADIC)) is None, "five keys are too few"


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_p03_the_histogram_of_gaussian_scores_is_the_normal(sigma):
    score = np.random.default_rng(1).normal(0, sigma, 200_000)
    found = lognormal.histogram(row(np.exp(score) / np.exp(score).sum()))
    assert found.share.sum() == pytest.approx(1) and found.normal.sum() == pytest.approx(1, abs=1e-4)
    assert found.misfit < 0.01
    middle = (found.edges[:-1] + found.edges[1:]) / 2
    assert math.sqrt((found.share * middle**2).sum()) == pytest.approx(sigma, rel=0.01)


def test_p03_two_heaps_of_scores_miss_the_normal_by_what_can_be_worked_out():
    """Scores -1 and +1 alike: all keys lie in the first and the last bin, which hold little of a normal."""
    found = lognormal.histogram(row(np.exp(np.repeat([-1.0, 1.0], 500)) / np.exp(np.repeat([-1.0, 1.0], 500)).sum()))
    assert found.share[0] == found.share[-1] == 0.5 and found.share[1:-1].sum() == 0
    width = 2 / lognormal.BINS
    normal = NormalDist()
    outer = normal.cdf(1) - normal.cdf(1 - width)  # of each of the two bins
    assert found.normal[0] == pytest.approx(outer) == pytest.approx(found.normal[-1])
    assert found.misfit == pytest.approx(1 - 2 * outer)


def test_p03_rows_of_unlike_spread_have_normals_of_their_own():
    draw = np.random.default_rng(2)
    scores = draw.normal(size=(2, 50_000)) * np.array([[0.3], [2.0]])
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    rows = rows_from(weights, np.ones_like(weights, bool), np.array([49_999, 49_999]))
    assert lognormal.histogram(rows).misfit < 0.02, "one normal for both would miss by a quarter"


def test_p04_a_shape_on_uniform_rows():
    rows = uniform_rows(1024)
    path = patterns.paths(rows)["a_shape"]
    assert path.size(128) == {"first": 4, "window": 128}
    assert path.mass[128] == pytest.approx(0.392568, abs=1e-6)
    assert patterns.retained_rows(rows, path.mask(128))[-1] == pytest.approx(132 / 1024)


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("two_sided", [False, True])
def test_p04_every_path_is_what_its_masks_keep(window, two_sided):
    n = 48
    draw = np.random.default_rng(3)
    distance = np.arange(n)[:, None] - np.arange(n)[None]
    visible = (np.abs(distance) < (window or n)) & (two_sided | (distance >= 0))
    weights = np.where(visible, np.exp(2 * draw.normal(size=(n, n))), 0)
    rows = rows_from(weights / weights.sum(-1, keepdims=True), visible, np.arange(n))
    for name, path in patterns.paths(rows).items():
        for step in {0, 1, 5, len(path.pairs) // 2, len(path.pairs) - 1}:
            mask = path.mask(step)
            assert not (mask & ~visible).any(), name
            assert mask.sum() == path.pairs[step], (name, step)
            assert patterns.retained_rows(rows, mask).mean() == pytest.approx(path.mass[step], abs=1e-12), (name, step)
        assert path.pairs[-1] == visible.sum() and path.mass[-1] == pytest.approx(1)


@pytest.mark.parametrize("length, gap", [(1, False), (2, False), (17, False), (64, True), (130, False)])
@pytest.mark.parametrize("two_sided", [False, True])
def test_p04_compiled_sums_are_the_plain_ones(length, gap, two_sided, monkeypatch):
    draw = np.random.default_rng(length)
    seen = (draw.random((length, length)) < 0.8) | np.eye(length, dtype=bool)
    seen &= two_sided | np.tril(np.ones((length, length), bool))
    if gap:
        seen[20:41] = False  # rows that see nothing are no rows
    rows = rows_from(draw.random((length, length)), seen, np.arange(length))
    made = sums.Sums.of(rows, 4)
    monkeypatch.setattr(sums, "numba_is_here", lambda: False)
    plain = sums.Sums.of(rows, 4)
    assert (made.count == plain.count).all() and (made.block_count == plain.block_count).all()
    assert made.mass == pytest.approx(plain.mass, abs=1e-12)
    assert made.block_mass == pytest.approx(plain.block_mass, abs=1e-12)
    assert made.count.sum() == made.block_count.sum() == rows.visible.sum()
    assert made.mass.sum() == made.block_mass.sum() == pytest.approx(len(rows.position))


def test_p04_planted_heads_are_named():
    previous = patterns.fit_all(planted(100, lambda i: i - 1))
    assert previous.name == "diagonal" and previous.fits["diagonal"].price_size == {"columns": 0, "diagonals": 1}
    assert previous.fits["diagonal"].retained > 0.98
    sink = patterns.fit_all(planted(100, lambda i: 0))
    assert sink.name == "a_shape" and sink.fits["vertical_slash"].price_size == {"columns": 1, "diagonals": 0}
    assert sink.fits["vertical_slash"].price == pytest.approx(100 / 5050)
    assert patterns.fit_all(uniform_rows(100)).name == "dense"
    later = patterns.fit_all(planted(100, lambda i: 20))
    assert later.name == "vertical_slash" and later.fits["vertical_slash"].size["columns"] >= 1


def test_p04_equal_budgets_and_nothing_smaller():
    decision = patterns.fit_all(uniform_rows(100), budget=0.0)
    assert decision.fits["a_shape"].retained is None, "the first keys alone are more than nothing"
    assert decision.fits["local"].retained == 0.0
    decision = patterns.fit_all(uniform_rows(100), budget=1.0)
    assert all(fit.retained == pytest.approx(1) for fit in decision.fits.values())


def test_a_long_map_is_measured_on_its_last_rows():
    assert measured_rows(1024, 1024) == slice(0, 1024)
    assert measured_rows(8192, 8192) == slice(8192 - 256, 8192)
    assert measured_note(1024, 1024) == ""
    assert "the last 256 of 8,192 rows" in measured_note(8192, 8192)


def kept_row(weights, kept):
    """The kept weights divided by their sum m, and m."""
    mass = (weights * kept).sum(-1)
    return weights * kept / mass[..., None], mass


def test_t03_what_the_retained_mass_tells():
    """KL is -ln m, the total variation 1 - m, and no output moves by more than (1 - m) times the values' diameter."""
    draw = np.random.default_rng(1)
    weights = draw.dirichlet(np.ones(50), 20)
    kept = draw.random((20, 50)) < 0.4
    short, mass = kept_row(weights, kept)
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(kept, short * np.log(short / weights), 0).sum(-1)
    assert divergence == pytest.approx(retained.divergence(mass), abs=1e-12)
    assert np.abs(short - weights).sum(-1) / 2 == pytest.approx(1 - mass, abs=1e-12)
    values = draw.normal(size=(50, 8))
    moved = np.linalg.norm(short @ values - weights @ values, axis=-1)
    diameter = np.linalg.norm(values[:, None] - values[None], axis=-1).max()
    assert (moved <= (1 - mass) * diameter).all()


def test_t03_dropping_one_key_moves_the_output_exactly_so_far():
    """By p / (1 - p) times the distance of its value from the output."""
    draw = np.random.default_rng(2)
    weights, values = draw.dirichlet(np.ones(30)), draw.normal(size=(30, 16))
    output = weights @ values
    moved = weights / (1 - weights) * np.linalg.norm(output - values, axis=-1)
    for key in range(30):
        again = kept_row(weights, np.arange(30) != key)[0] @ values
        assert np.linalg.norm(output - again) == pytest.approx(moved[key], abs=1e-10)


def test_rows_that_see_nothing_are_no_rows():
    weights = np.array([[0.0, 0.0], [0.5, 0.5]])
    found = rows_from(weights, np.array([[False, False], [True, True]]), np.array([0, 1]))
    assert isinstance(found, Rows) and found.position.tolist() == [1]


def test_rows_keep_their_queries_where_one_between_them_sees_nothing():
    visible = np.array([[True, False, False, False], [False] * 4, [True, True, True, False]])
    found = rows_from(visible.astype(float), visible, np.arange(3) + 1)
    assert found.numbers(MapSize(heads=1, queries=3, keys=4), causal=True).tolist() == [0, 2]
    assert rows_from(visible, visible, np.arange(3)).numbers(MapSize(1, 3, 4), causal=False).tolist() == [0, 2]

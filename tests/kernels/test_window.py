"""Windows of a map: what they show is the map itself."""

import pytest
import torch

from kernels.measures import NOTHING, MeasureRequest
from kernels.reference import attend_reference, dense_scores, softmax_with_sink
from kernels.score import ScoreSpec, real_rows
from kernels.tiled import attend_tiled
from kernels.window import pooled, sampled, visible, weights
from tests.kernels.triton_variants import VARIANTS

RULES = [v for v in VARIANTS if v.interpreted and v.rule]


def dense(query, key, score):
    """The whole map and its visible cells."""
    scores = dense_scores(query, key, score)
    real = real_rows(score, query.shape[0], query.shape[2], key.shape[2])[:, None, :, None]
    seen = (scores > float("-inf")) & real
    return softmax_with_sink(scores, score.sink)[0] * seen, seen


@pytest.mark.parametrize("variant", RULES, ids=lambda v: v.name)
def test_any_window_of_any_rule(variant):
    query, key, value, score, _ = variant.build()
    lse = attend_tiled(query, key, value, score, NOTHING).lse
    whole, seen = dense(query, key, score)
    n_query, n_key = query.shape[2], key.shape[2]
    for rows in (slice(0, n_query), slice(n_query // 3, n_query // 3 + 1)):
        for columns in (slice(0, n_key), slice(n_key // 2, n_key)):
            got = weights(query, key, score, lse, rows, columns)
            assert got.dtype == torch.float32
            torch.testing.assert_close(got.double(), whole[:, :, rows, columns], atol=1e-5, rtol=0)
            cells = visible(score, n_query, n_key, rows, columns)
            assert torch.equal(cells.expand(got.shape), seen[:, :, rows, columns])
            assert (got[~cells.expand(got.shape)] == 0).all()


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("variant", RULES, ids=lambda v: v.name)
def test_pictures_of_any_rule(variant, how):
    query, key, value, score, _ = variant.build()
    expected = attend_reference(query, key, value, score, MeasureRequest(pooled=7)).measures[f"pooled_{how}"]
    lse = attend_tiled(query, key, value, score, NOTHING).lse
    got = pooled(query, key, score, lse, slice(None), slice(None), 7, how)
    torch.testing.assert_close(got.double(), expected, atol=1e-6, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("variant", RULES, ids=lambda v: v.name)
def test_a_sampled_picture_is_that_of_its_rows(variant, how):
    query, key, value, score, _ = variant.build()
    lse = attend_tiled(query, key, value, score, NOTHING).lse
    whole, seen = dense(query, key, score)
    n_query, n_key = query.shape[2], key.shape[2]
    blocks = min(5, n_query)
    count = min(2, n_query // blocks)
    got = sampled(query, key, score, lse, slice(None), slice(None), 5, how, most_cells=2 * blocks * n_key)
    for p in range(blocks):
        first, last = p * n_query // blocks, (p + 1) * n_query // blocks
        rows = [first + int((place + 0.5) * (last - first) / count) for place in range(count)]
        for q in range(min(5, n_key)):
            columns = slice(q * n_key // min(5, n_key), (q + 1) * n_key // min(5, n_key))
            cells, there = whole[:, :, rows, columns], seen[:, :, rows, columns].expand(*got.shape[:2], -1, -1)
            number = there.sum((-2, -1))
            if how == "mean":
                expected = cells.sum((-2, -1)) / number
            else:
                expected = cells.masked_fill(~there, -1).amax((-2, -1)).masked_fill(number == 0, torch.nan)
            torch.testing.assert_close(got[:, :, p, q].double(), expected, atol=1e-6, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("how", ["mean", "max"])
def test_a_sample_of_all_rows_is_the_exact_picture(how):
    variant = next(v for v in VARIANTS if v.name == "window")
    query, key, value, score, _ = variant.build()
    lse = attend_tiled(query, key, value, score, NOTHING).lse
    window = slice(3, 31), slice(2, 28)  # 28 rows: four blocks of seven
    exact = pooled(query, key, score, lse, *window, 4, how)
    found = sampled(query, key, score, lse, *window, 4, how, most_cells=10**9)
    torch.testing.assert_close(found, exact, atol=1e-6, rtol=1e-5, equal_nan=True)
    with pytest.raises(ValueError, match="most_cells: expected 1 or more"):
        sampled(query, key, score, lse, *window, 4, how, most_cells=0)


def test_picture_of_a_part_of_the_map():
    variant = next(v for v in VARIANTS if v.name == "window")
    query, key, value, score, _ = variant.build()
    lse = attend_tiled(query, key, value, score, NOTHING).lse
    whole, seen = dense(query, key, score)
    got = pooled(query, key, score, lse, slice(10, 31), slice(5, 28), 4)
    part, cells = whole[:, :, 10:31, 5:28], seen[:, :, 10:31, 5:28]
    for p, (top, bottom) in enumerate([(0, 5), (5, 10), (10, 15), (15, 21)]):
        for q, (left, right) in enumerate([(0, 5), (5, 11), (11, 17), (17, 23)]):
            total, count = (
                part[..., top:bottom, left:right].sum((-2, -1)),
                cells[..., top:bottom, left:right].sum((-2, -1)),
            )
            torch.testing.assert_close(got[..., p, q].double(), total / count, atol=1e-6, rtol=0, equal_nan=True)


@pytest.mark.parametrize("how", ["mean", "max"])
@pytest.mark.parametrize("rule", [{}, {"causal": False}, {"window": 40}, {"softcap": 2.0}], ids=str)
def test_pictures_of_many_strips(rule, how, monkeypatch):
    query, key = torch.randn(2, 4, 500, 16), torch.randn(2, 2, 500, 16)
    score = ScoreSpec(0.5, key_padding=torch.arange(500).expand(2, -1) >= torch.tensor([[0], [77]]), **rule)
    lse = attend_tiled(query, key, key, score, NOTHING).lse
    rows, columns = slice(100, 477), slice(3, 402)
    got = pooled(query, key, score, lse, rows, columns, 37, how)
    monkeypatch.setattr("kernels.window._by_loops", lambda *_: False)  # the same by tensor operations
    expected = pooled(query, key, score, lse, rows, columns, 37, how)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5, equal_nan=True)


def test_a_picture_does_not_hide_nan():
    query, key = torch.randn(1, 1, 40, 16), torch.randn(1, 1, 40, 16)
    query[0, 0, 20] = torch.nan
    lse = attend_tiled(query, key, key, ScoreSpec(0.3), NOTHING).lse
    for how in ("mean", "max"):
        got = pooled(query, key, ScoreSpec(0.3), lse, slice(None), slice(None), 4, how)
        assert got[0, 0, 2, :3].isnan().all() and got[0, 0, 1, :2].isfinite().all()


@pytest.mark.parametrize(
    "rows, text", [(slice(3, 3), "start < stop"), (slice(0, 99), "within 0 .. 33"), (slice(0, 4, 2), "no step"),
                   (slice(-3, None), "within")])  # fmt: skip
def test_windows_outside_the_map_are_refused(rows, text):
    query, key, value, score, _ = next(v for v in VARIANTS if v.name == "softcap").build()
    lse = attend_tiled(query, key, value, score, NOTHING).lse
    with pytest.raises(ValueError, match=text):
        weights(query, key, score, lse, rows, slice(None))


def test_the_lse_of_all_rows_is_asked_for():
    query, key, value, score, _ = next(v for v in VARIANTS if v.name == "softcap").build()
    lse = attend_tiled(query, key, value, score, NOTHING).lse
    with pytest.raises(ValueError, match="that of all rows"):
        weights(query, key, score, lse[..., :4], slice(0, 4), slice(None))
    with pytest.raises(ValueError, match='"mean" or "max"'):
        pooled(query, key, score, lse, slice(None), slice(None), 4, "median")

"""The dense reference against values worked out by hand or by torch: everything faster is tested against it."""

import math

import pytest
import torch
import torch.nn.functional as F

from kernels.measures import MeasureRequest, sampled_rows
from kernels.reference import attend_reference
from kernels.score import ScoreSpec

HIDDEN = float("-inf")
ALL = MeasureRequest(pooled=8, sampled=64, top=2, scores=True)


def planted(logits: torch.Tensor, request: MeasureRequest = ALL, **rule):
    """One head whose scores are exactly `logits` [Nq, Nk]."""
    n_query, n_key = logits.shape
    blank = torch.zeros(1, 1, 1, 1)
    score = ScoreSpec(1.0, bias=logits[None, None], **rule)
    query, key = blank.expand(1, 1, n_query, 1), blank.expand(1, 1, n_key, 1)
    return attend_reference(query, key, key, score, request)


def head(attended, name):
    return attended.measures[name][0, 0]


def close(got, expected, tolerance=1e-6):
    torch.testing.assert_close(got.double(), torch.as_tensor(expected, dtype=torch.float64), atol=tolerance, rtol=0)


def test_uniform_causal_n8():
    got = planted(torch.zeros(8, 8))
    received = [2.717857, 1.717857, 1.217857, 0.884524, 0.634524, 0.434524, 0.267857, 0.125]
    close(head(got, "entropy").mean(), 1.325575)
    assert head(got, "entropy").mean().item() == pytest.approx(math.lgamma(9) / 8)
    close(head(got, "received_sum"), received)
    close(head(got, "distance_sum"), received)
    close(head(got, "received_sum") / head(got, "visible_rows"),
          [0.339732, 0.245408, 0.202976, 0.176905, 0.158631, 0.144841, 0.133929, 0.125])  # fmt: skip
    close(head(got, "mean_distance"), torch.arange(8) / 2)
    close(head(got, "sum_square").sum(), 2.717857)
    close(head(got, "received_square").sum(), 2.717857)
    assert head(got, "visible_rows").tolist() == head(got, "distance_rows").tolist() == [8, 7, 6, 5, 4, 3, 2, 1]
    assert head(got, "negligible").sum() == 0
    assert head(got, "max_key").tolist() == [0] * 8  # the lowest of equals


def test_importance_of_the_first_key():
    close(head(planted(torch.zeros(64, 64)), "received_sum")[0] / 64, 0.074123)
    windowed = planted(torch.zeros(64, 64), window=16)
    importance = head(windowed, "received_sum") / head(windowed, "visible_rows")
    close(importance[0], 0.211296)
    close(importance[15:49], torch.full((34,), 1 / 16))  # interior keys, seen by full windows only; trap 7
    assert head(windowed, "visible_rows").tolist() == [16] * 49 + list(range(15, 0, -1))


def on_offset(length, offset, beta):
    logits = torch.zeros(length, length)
    rows = torch.arange(offset, length)
    logits[rows, rows - offset] = beta
    return logits


def test_planted_previous_head():
    got = head(planted(on_offset(101, 1, 8.0)), "previous_mass")
    assert got[0].isnan()
    close(got[1:].mean(), 0.983430525, 1e-8)
    close(head(planted(torch.zeros(101, 101)), "previous_mass")[1:].mean(), 0.041972785, 1e-8)


@pytest.mark.parametrize("name, offset", [("duplicate_mass", 50), ("induction_mass", 49)])
def test_planted_duplicate_and_induction_heads(name, offset):
    tokens = torch.cat([torch.tensor([0]), torch.arange(1, 51), torch.arange(1, 51)])[None]
    logits = on_offset(101, offset, 8.0)
    logits[:51] = 0
    got = planted(logits, MeasureRequest(pooled=None, tokens=tokens))
    assert head(got, name)[:51].isnan().all()
    close(head(got, name)[51:].mean(), 0.975319947, 1e-8)
    if name == "induction_mass":
        uniform = planted(torch.zeros(101, 101), MeasureRequest(pooled=None, tokens=tokens))
        close(head(uniform, name)[51:].mean(), 0.013569307, 1e-8)


def test_planted_sink():
    logits = torch.zeros(101, 101)
    logits[:, 0] = 8.0
    got = planted(logits)
    importance = head(got, "received_sum") / head(got, "visible_rows")
    close(importance[0], 0.983594579, 1e-8)
    assert (importance[1:100] < 0.3).all()


def test_dyadic_row():
    row = torch.tensor([[1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16]], dtype=torch.float64).log()
    got = planted(row, causal=False)
    close(head(got, "entropy")[0], 1.299651)
    close(head(got, "sum_square")[0], 0.3359375)
    close(head(got, "entropy").exp()[0], 3.668016)
    assert head(got, "coverage")[0].tolist() == [1, 3, 4, 5, 5]
    assert head(got, "top_keys")[0].tolist() == [0, 1]


def test_coverage_of_uniform_and_one_hot_rows():
    uniform = planted(torch.zeros(1, 100), causal=False)
    assert head(uniform, "coverage")[0].tolist() == [50, 80, 90, 95, 99]
    certain = planted(torch.tensor([[0.0, 800.0, 0.0]]), causal=False)
    assert head(certain, "coverage")[0].tolist() == [1] * 5
    close(head(certain, "entropy"), [0.0])


def test_alibi_of_identical_tokens():
    slope, length = 0.5, 200
    bias = -slope * (torch.arange(2 * length - 1) - (length - 1.0))[None]  # of row - key, the keys before a row
    token = torch.ones(1, 1, length, 4)
    got = attend_reference(token, token, token, ScoreSpec(0.5, bias_by_distance=bias), ALL)
    close(head(got, "mean_distance")[-1], 1 / (math.exp(slope) - 1))
    nope = attend_reference(token, token, token, ScoreSpec(0.5), ALL)
    close(head(nope, "max_weight"), 1 / torch.arange(1, length + 1).double(), 1e-12)


def test_learned_sink_is_one_more_outcome():  # case 14
    sinks = torch.arange(8.0) - 3
    query = torch.zeros(1, 8, 12, 8)
    got = attend_reference(query, query, query, ScoreSpec(1.0, sink=sinks), ALL)
    visible = torch.arange(1, 13.0)
    expected = sinks.exp()[:, None] / (visible + sinks.exp()[:, None])
    close(got.measures["learned_sink_mass"][0], expected, 1e-6)
    close(1 - got.measures["learned_sink_mass"][0, :, -1],
          [0.9959, 0.9888, 0.9703, 0.9231, 0.8153, 0.6189, 0.3740, 0.1802], 5e-5)  # fmt: skip
    close(got.measures["entropy"][0], got.lse[0] - expected * sinks[:, None].double(), 1e-6)  # H = lse - E[S]
    assert got.measures["coverage"][0, :, -1].tolist() == [[6, 10, 11, 12, 12]] * 8  # of the visible mass


@pytest.mark.parametrize("window, seen", [(4, [1, 2, 3] + [4] * 9)])
def test_window_counts_the_row_itself(window, seen):  # case 10
    got = planted(torch.zeros(12, 12), window=window)
    assert head(got, "visible_keys").tolist() == seen
    assert head(got, "distance_rows").tolist() == [12, 11, 10, 9] + [0] * 8


def test_two_sided_window():  # case 12
    got = planted(torch.zeros(12, 12), causal=False, around=(2, 2))
    assert head(got, "visible_keys").tolist() == [3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 4, 3]


def test_softcap_bounds_the_ratio_of_weights():  # case 13
    query, key = 30 * torch.randn(1, 1, 12, 8), 30 * torch.randn(1, 1, 12, 8)
    got = attend_reference(query, key, key, ScoreSpec(1.0, softcap=1.0), MeasureRequest(top=12))
    weights = head(got, "top_weights")
    ratio = weights[:, 0] / weights.nan_to_num(2).amin(-1)
    assert ratio.max() <= math.exp(2) + 1e-6 and ratio.max() > 7


def test_no_look_ahead_with_and_without_a_mask():  # case 2
    query, key, value = (torch.randn(2, 3, 12, 8) for _ in range(3))
    ones = torch.ones(2, 12, dtype=torch.bool)
    plain, padded = (
        attend_reference(query, key, value, s, ALL) for s in (ScoreSpec(0.3), ScoreSpec(0.3, key_padding=ones))
    )
    changed = value.clone()
    changed[:, :, 7:] += 1
    later = attend_reference(query, key, changed, ScoreSpec(0.3), ALL)
    assert torch.equal(plain.output, padded.output)
    assert torch.equal(plain.output[:, :, :7], later.output[:, :, :7])


def test_query_heads_share_key_heads_in_runs():  # case 3
    query, key = torch.randn(1, 8, 12, 8), torch.randn(1, 2, 12, 8)
    key[:, 1] = 0
    got = attend_reference(query, key, key, ScoreSpec(0.3), ALL).measures["entropy"][0]
    uniform = torch.arange(1, 13.0).log()
    close(got[4:], uniform.expand(4, -1))
    assert ((got[:4] - uniform).abs().amax(-1) > 0.01).all()


def test_padding_is_in_no_measure():  # case 4, trap 1
    alone = [torch.randn(1, 2, 4, 8) for _ in range(3)]
    left = [torch.cat([9 * torch.randn(1, 2, 4, 8), part], 2) for part in alone]
    padding = torch.tensor([[False] * 4 + [True] * 4])
    request = MeasureRequest(pooled=4, tokens=None, top=2, scores=True)
    got = attend_reference(*left, ScoreSpec(0.3, key_padding=padding), request)
    expected = attend_reference(*alone, ScoreSpec(0.3), request)
    torch.testing.assert_close(got.output[:, :, 4:], expected.output)
    for name in ("entropy", "mean_distance", "first_mass", "previous_mass", "score_mean", "visible_keys"):
        torch.testing.assert_close(got.measures[name][:, :, 4:], expected.measures[name], equal_nan=True)
        blank = got.measures[name][:, :, :4]
        assert (blank == 0).all() if name == "visible_keys" else blank.isnan().all()
    torch.testing.assert_close(got.measures["received_sum"][:, :, 4:], expected.measures["received_sum"])
    assert (got.measures["received_sum"][:, :, :4] == 0).all() and got.measures["received_max"][:, :, :4].isnan().all()
    torch.testing.assert_close(got.measures["distance_sum"][..., :4], expected.measures["distance_sum"])
    assert got.measures["pooled_mean"][:, :, :2].isnan().all() and got.measures["pooled_mean"][..., :2].isnan().all()


@pytest.mark.parametrize("n_query, n_key", [(1, 1), (17, 17), (5, 12)])
@pytest.mark.parametrize("kind", ["causal", "bidirectional", "mask", "bias", "padding"])
def test_output_is_that_of_torch(n_query, n_key, kind):
    query, key, value = torch.randn(2, 6, n_query, 8), torch.randn(2, 2, n_key, 8), torch.randn(2, 2, n_key, 5)
    own, given = {"causal": kind == "causal"}, None
    if kind == "causal":
        given = torch.ones(n_query, n_key, dtype=torch.bool).tril(n_key - n_query)
    elif kind == "mask":
        given = torch.rand(2, 1, n_query, n_key) > 0.4
        given[..., 0] = True
        own["mask"] = given
    elif kind == "bias":
        given = torch.randn(1, 6, n_query, n_key)
        own["bias"] = given
    elif kind == "padding":
        own["key_padding"] = torch.rand(2, n_key) > 0.4
        own["key_padding"][:, 0] = True
        given = own["key_padding"][:, None, None]
    got = attend_reference(query, key, value, ScoreSpec(0.3, **own), MeasureRequest())
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=given, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(got.output, expected, atol=2e-6, rtol=1e-5)


def test_sums_agree_with_each_other():
    query, key, value = torch.randn(2, 4, 40, 8), torch.randn(2, 2, 40, 8), torch.randn(2, 2, 40, 8)
    groups = torch.arange(40)[None].expand(2, 40) % 3
    got = attend_reference(query, key, value, ScoreSpec(0.5), MeasureRequest(pooled=40, groups=groups)).measures
    for total in (got["received_sum"].sum(-1), got["distance_sum"].sum(-1), got["pooled_mean"].nansum((-2, -1))):
        close(total, torch.full((2, 4), 40.0), 1e-9)
    close(got["group_mass"].sum(-1), torch.ones(2, 4, 40), 1e-9)
    close(got["received_square"].sum(-1), got["sum_square"].sum(-1), 1e-9)


def test_temperature_infinity_is_uniform_over_the_visible():
    query = torch.randn(1, 2, 12, 8)
    score = ScoreSpec(1.0, temperature=torch.tensor([math.inf, 1.0]), key_bias=torch.tensor([[[0.0, HIDDEN] * 6]]))
    got = attend_reference(query, query, query, score, ALL)
    close(got.measures["max_weight"][0, 0], 1 / got.measures["visible_keys"][0, 0].double(), 1e-12)


@pytest.mark.parametrize(
    "length, sampled, rows", [(5, 64, [0, 1, 2, 3, 4]), (100, 20, [0, 21, 42, 63, *range(84, 100)])]
)
def test_sampled_rows(length, sampled, rows):
    assert sampled_rows(length, sampled).tolist() == rows

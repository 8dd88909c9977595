"""Every policy against its definition, written a second time on the dense map; budgets, ties, windows, key heads."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from backend import policies
from backend.errors import Refused
from backend.policies import Scored
from backend.policies.expected_attention import expected_score, moments
from backend.policies.policy import best
from backend.policies.pyramidkv import pyramid
from backend.policies.snapkv import SnapKV
from backend.policies.top_theta import per_row, thresholds
from backend.rotary import Rotary
from backend.sparsity.simulate import Simulation, judge, retained_mass
from tests.backend.policies.planted import dense, layer

SHELF = policies.all()
FOURTEEN = {
    "streaming_llm", "window", "h2o", "snapkv", "tova", "knorm", "keydiff", "expected_attention", "adakv", "pyramidkv",
    "duo_attention", "top_theta", "oracle", "random",
}  # fmt: skip
ROTARY = Rotary(torch.tensor([1.0, 0.3, 0.1, 0.03]))


def rotated(**given):
    return replace(layer(**given), rotary=ROTARY)


def chosen(name, budget=0.25, **given):
    one = rotated(**given)
    policy = SHELF[name]
    return one, policy.choose([policy.scored(one)], budget)[0]


def test_the_shelf_holds_the_fourteen_and_their_words():
    assert set(SHELF) == FOURTEEN
    for policy in SHELF.values():
        assert policy.caption.endswith(".") and policy.title and policy.formula


@pytest.mark.parametrize("name", sorted(FOURTEEN))
@pytest.mark.parametrize("budget", [0.0, 0.01, 0.1, 0.25, 0.5, 0.9, 1.0])
def test_no_budget_is_exceeded_and_all_of_it_may_be_used(name, budget):
    one, kept = chosen(name, budget)
    most = int(budget * one.n + 1e-9) * one.key_heads
    assert kept.shape == (2, 60) and kept.dtype == torch.bool
    assert int(kept.sum()) <= most
    if name != "duo_attention":  # whole heads and streaming heads do not fill every budget
        assert int(kept.sum()) == most
    if budget == 1:
        assert kept.all()


@pytest.mark.parametrize("name", sorted(FOURTEEN))
def test_everything_kept_retains_everything(name):
    one, kept = chosen(name, 1.0)
    judged = judge(one, kept)
    assert judged.retained == pytest.approx(torch.ones(4).double(), abs=1e-6)
    assert judged.divergence == pytest.approx(torch.zeros(4).double(), abs=1e-6)
    assert judged.overlap.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", sorted(FOURTEEN))
def test_no_policy_but_the_oracle_looks_ahead(name):
    one = rotated()
    before, after = SHELF[name].scored(one.without_future()), SHELF[name].scored(one)
    assert torch.equal(before.values, after.values) != SHELF[name].looks_ahead


@pytest.mark.parametrize("name", sorted(FOURTEEN))
@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_is_never_beaten(name, seed):
    """On average over heads with equal keys together, and in every head with as many keys as the policy kept there."""
    one, kept = chosen(name, seed=seed)
    ideal = SHELF["oracle"].choose([SHELF["oracle"].scored(one)], 0.25)[0]
    assert judge(one, kept).retained.mean() <= judge(one, ideal).retained.mean() + 1e-12
    judged = judge(one, kept)
    per_key_head = one.per_key_head
    assert (per_key_head(judged.retained) <= per_key_head(judged.best_possible) + 1e-12).all()


def test_retained_mass_is_the_mass_of_the_dense_map():
    one, kept = chosen("snapkv")
    rows = dense(one)[:, one.n :]
    inside = torch.cat([kept, torch.ones(2, 20, dtype=torch.bool)], 1).repeat_interleave(2, 0)
    assert torch.allclose(retained_mass(one, kept), (rows * inside[:, None]).sum(-1), atol=1e-5)
    outcome = Simulation.of([lambda: one], ["snapkv"]).outcomes(0.25)[0]
    assert outcome.divergence == pytest.approx(float(-(rows * inside[:, None]).sum(-1).log().mean()), abs=1e-4)
    assert outcome.kept_share == pytest.approx(0.25)
    assert outcome.survival(40, 60) == pytest.approx(float(kept[:, 40:60].double().mean()))


@pytest.mark.parametrize("rule", [{}, {"window": 21}, {"chunk": 32}])
def test_uniform_attention_retains_what_a_head_without_content_does(rule):
    """Over all later rows and what they see: the first row, or all keys of the context, would be another number."""
    flat, full = layer(strength=0.0, **rule), layer(strength=0.0, seed=1)
    outcomes = Simulation.of([lambda: flat, lambda: full], ["knorm", "window", "random"]).outcomes(0.5)
    for outcome in outcomes:
        assert outcome.uniform == pytest.approx(outcome.retained, abs=1e-6)


def test_window_and_streaming_llm():
    _, kept = chosen("window")
    assert kept.nonzero()[:, 1].tolist() == [*range(45, 60)] * 2
    _, kept = chosen("streaming_llm")
    assert kept[0].nonzero()[:, 0].tolist() == [0, 1, 2, 3, *range(49, 60)]


def test_h2o_is_what_a_key_received_over_the_rows_that_see_it():
    one = layer()
    context = dense(one)[:, :60, :60]
    expected = (context.sum(1) / torch.arange(60, 0, -1)).reshape(2, 2, 60).mean(1)
    assert torch.allclose(SHELF["h2o"].scores(one).double(), expected, atol=1e-6)
    windowed = layer(window=9)
    expected = dense(windowed)[:, :60, :60].sum(1) / torch.arange(60, 0, -1).clamp(max=9)
    assert torch.allclose(windowed.received.double(), expected, atol=1e-6)


@pytest.mark.parametrize("rule", [{"chunk": 16}, {"window": 9, "keep_first": 2}, {"chunk": 7, "keep_first": 3}])
def test_rows_and_keys_that_see_each_other_are_those_of_the_rule(rule):
    """Counted where h2o divides by rows, and where top-theta counts the keys of a row."""
    one = layer(**rule, strength=1.0)
    rows = dense(one)
    seen = rows[0] > 0
    expected = rows[:, :60, :60].sum(1) / seen[:60, :60].sum(0)
    assert torch.allclose(one.received.double(), expected, atol=1e-6)
    calibrating = range(9, 60, 10)
    counts = [max(1, int(0.25 * int(seen[row].sum()))) for row in calibrating]
    thetas = [
        rows[:, row].sort(-1, descending=True).values[:, k - 1] for row, k in zip(calibrating, counts, strict=True)
    ]
    assert torch.allclose(thresholds(one, 0.25).double(), torch.stack(thetas).mean(0), atol=1e-6)
    assert torch.equal(one.visible(0, 80)[0], seen)


def test_a_weight_that_underflows_is_still_that_of_a_visible_key():
    one = layer(strength=60.0)
    assert (one.future[:, :, :60] == 0).any()
    kept = (one.future >= thresholds(one, 0.25).double()[:, None, None]) & one.visible(60, 80)
    assert torch.allclose(per_row(one, 0.25).kept, kept.sum(-1) / torch.arange(61, 81))


def test_snapkv_looks_at_its_window_smoothed():
    one = layer()
    rows = dense(one)[:, 53:60, :53].mean(1)
    smooth = torch.nn.functional.avg_pool1d(rows[None], 5, stride=1, padding=2)[0].reshape(2, 2, 53).mean(1)
    found = SHELF["snapkv"].scores(one)
    assert torch.allclose(found[:, :53].double(), smooth, atol=1e-6)
    assert torch.isinf(found[:, 53:]).all()
    assert "of 60 tokens it took 7" in SHELF["snapkv"].note(one, 0.5)
    assert "always keeps 7 keys and the budget is 3" in SHELF["snapkv"].note(one, 0.05)
    assert SnapKV().note(layer(n=600, length=610), 0.5) is None


def test_tova_is_the_same_in_all_heads():
    one, kept = chosen("tova")
    assert torch.equal(kept[0], kept[1]) and kept[0, 59]
    last = dense(one)[:, 59, :60].mean(0)
    assert kept[0, last[:59].argmax()]


def test_knorm_and_keydiff():
    one = layer()
    assert torch.allclose(SHELF["knorm"].scores(one), -one.key[:, :60].norm(dim=-1))
    unit = one.key[:, :60] / one.key[:, :60].norm(dim=-1, keepdim=True)
    mean = unit.mean(1, keepdim=True)
    expected = -(unit * mean).sum(-1) / mean.norm(dim=-1)
    assert torch.allclose(SHELF["keydiff"].scores(one), expected, atol=1e-6)


def test_adakv_spends_the_budget_of_a_layer_where_it_is_worth_most():
    values = torch.stack([torch.linspace(1, 2, 20), torch.linspace(0, 0.5, 20)]).double()
    one = Scored(0, values, torch.ones(20, dtype=torch.bool))
    kept = SHELF["adakv"].choose([one], 0.5)[0]
    assert kept.sum(-1).tolist() == [18, 2], "the weak head keeps a fifth of its share"
    equal = SHELF["adakv"].choose([replace(one, values=values[:1].repeat(2, 1))], 0.5)[0]
    assert equal.sum(-1).tolist() == [10, 10]


def test_pyramidkv_falls_and_costs_no_more():
    counts = pyramid(np.full(30, 768.0), 0.25)
    assert counts == sorted(counts, reverse=True) and sum(counts) == 30 * 192
    assert counts[0] == pytest.approx(2 * 192 - 9.6, abs=1) and counts[-1] == pytest.approx(192 / 20, abs=1)
    assert max(pyramid(np.full(30, 100.0), 0.9)) <= 100 and sum(pyramid(np.full(30, 100.0), 0.9)) == 2700
    assert pyramid(np.array([50.0]), 0.5) == [25]
    assert sum(pyramid(np.array([768.0] * 5 + [127.0] * 25), 0.25)) <= 5 * 192 + 25 * 31


def test_duo_attention_keeps_whole_heads_and_streams_the_others():
    one, kept = chosen("duo_attention", 0.7)
    sizes = sorted(kept.sum(-1).tolist())
    assert sizes[1] == 60 and sizes[0] == 42 // 2
    streamed = kept[kept.sum(-1).argmin()].nonzero()[:, 0].tolist()
    assert streamed == [*range(7), *range(46, 60)]
    assert "they kept 7 and 14" in SHELF["duo_attention"].note(one, 0.7)
    worth = SHELF["duo_attention"].head_scores(one)
    assert kept.sum(-1).argmax() == worth.argmax()


def test_top_theta_per_row_keeps_what_reaches_the_threshold():
    one = layer()
    found = per_row(one, 0.25)
    rows = dense(one)
    thetas = [rows[:, r].sort(-1, descending=True).values[:, max(1, int(0.25 * (r + 1))) - 1] for r in range(9, 60, 10)]
    theta = torch.stack(thetas).mean(0)
    kept = rows[:, 60:] >= theta[:, None, None]
    assert torch.allclose(found.mass, (rows[:, 60:] * kept).sum(-1), atol=1e-5)
    assert torch.allclose(found.kept, kept.sum(-1) / torch.arange(61, 81))


def test_expected_attention_against_monte_carlo():
    draw = torch.Generator().manual_seed(0)
    mean, factor = torch.randn(1, 16, generator=draw), torch.randn(1, 16, 16, generator=draw) * 0.3
    covariance = factor @ factor.mT
    query = mean[:, None] + torch.randn(1, 400_000, 16, generator=draw) @ factor.mT
    key = torch.randn(1, 5, 16, generator=draw)
    closed = expected_score(key, mean, covariance, 0.25).exp()
    drawn = (0.25 * query @ key.mT).exp().mean(1)
    assert torch.allclose(closed, drawn, rtol=3e-3)
    again, spread = moments(query)
    assert torch.allclose(again, mean, atol=0.01) and torch.allclose(spread, covariance, atol=0.02)


def test_expected_attention_turns_the_queries_as_the_model_does():
    """Against the definition with explicit rotations, position by position."""
    one = rotated()
    plain = ROTARY.unrotate(one.query[:, 4:60], 4)
    assert torch.allclose(ROTARY.rotate(plain, 4), one.query[:, 4:60], atol=1e-5)
    mean, covariance = moments(plain)
    every = torch.stack([ROTARY.rotate(torch.eye(8)[:, None], 60 + at)[:, 0].T for at in range(512)])
    turn = every.mean(0)
    assert torch.allclose(turn, ROTARY.mean_rotation(60, 512), atol=1e-5)
    scores = expected_score(
        one.key[:, 4:60].repeat_interleave(2, 0), mean @ turn.T, turn @ covariance @ turn.T, 8**-0.5
    )
    worth = scores.softmax(-1).reshape(2, 2, 56).mean(1) * one.value_norm[:, 4:60]
    found = SHELF["expected_attention"].scores(one)
    assert torch.isinf(found[:, :4]).all() and torch.allclose(found[:, 4:], worth, atol=1e-6)


def test_expected_attention_without_a_rotary_embedding_says_what_it_needs():
    made = Simulation.of([layer], ["expected_attention", "window"])
    assert "needs the model's rotary embedding" in made.refused["expected_attention"]
    assert [outcome.policy for outcome in made.outcomes(0.5)] == ["window"]


@pytest.mark.parametrize("name", sorted(FOURTEEN))
def test_keys_out_of_a_windows_reach_are_no_saving(name):
    one, kept = chosen(name, 0.5, window=21)
    assert int(one.reachable.sum()) == 20 and one.reachable[40:].all()
    assert not kept[:, :40].any() and int(kept.sum()) <= 2 * 10


@pytest.mark.parametrize("name", sorted(FOURTEEN))
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_the_shortest_texts(name, n):
    one, kept = chosen(name, 1.0, n=n, length=n + 1)
    assert kept.all() and kept.shape == (2, n)
    assert judge(one, kept).retained == pytest.approx(torch.ones(4).double(), abs=1e-6)


def test_ties_go_to_the_later_key():
    kept = best(torch.zeros(1, 6), torch.tensor([True] * 5 + [False]), [2])
    assert kept[0].nonzero()[:, 0].tolist() == [3, 4]


def test_scores_that_are_no_numbers_are_refused():
    with pytest.raises(Refused, match="not finite"):
        best(torch.full((1, 4), math.nan), torch.ones(4, dtype=torch.bool), [1])


def test_a_context_needs_a_token_behind_it_and_a_cache():
    with pytest.raises(Refused, match="at least one token behind it"):
        layer(n=80)
    with pytest.raises(Refused, match="needs a cache"):
        layer(causal=False)


def test_a_budget_is_a_share():
    made = Simulation.of([layer], ["window"])
    with pytest.raises(Refused, match=r"expected 0 to 1, got 1\.5"):
        made.outcomes(1.5)

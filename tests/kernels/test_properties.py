"""What holds for every map, on inputs that hypothesis thinks of."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from kernels.measures import MeasureRequest
from kernels.reference import attend_reference
from kernels.score import ScoreSpec
from kernels.tiled import attend_tiled


@some.composite
def cases(draw):
    """Query, key, value and rule of some attention."""
    n_query, n_key = draw(some.integers(1, 40)), draw(some.integers(1, 40))
    heads, key_heads = draw(some.sampled_from([(1, 1), (4, 2), (3, 3), (6, 1)]))
    causal = draw(some.booleans())
    made = torch.Generator().manual_seed(draw(some.integers(0, 2**31)))
    rule = {"causal": causal, "keep_first": draw(some.integers(0, 5))}
    if causal:
        rule["window"] = draw(some.none() | some.integers(1, 50))
        rule["chunk"] = draw(some.none() | some.integers(1, 50))
    rule["around"] = draw(some.none() | some.tuples(some.integers(0, 20), some.integers(0, 20)))
    rule["softcap"] = draw(some.none() | some.floats(0.1, 50))
    if draw(some.booleans()):
        rule["sink"] = torch.randn(heads, generator=made) * 5
    if draw(some.booleans()):
        first, last = sorted((draw(some.integers(0, n_key)), draw(some.integers(0, n_key))))
        rule["key_padding"] = ((torch.arange(n_key) >= first) & (torch.arange(n_key) < last))[None]
    scale = draw(some.sampled_from([0.0, 0.35, 5.0, 1e4]))
    query = torch.randn(1, heads, n_query, 8, generator=made)
    key = torch.randn(1, key_heads, n_key, 8, generator=made)
    return query, key, torch.randn(1, key_heads, n_key, 4, generator=made), ScoreSpec(scale, **rule)


REQUEST = MeasureRequest(pooled=6, sampled=10)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_tiled_is_the_reference(case):
    got, expected = attend_tiled(*case, REQUEST), attend_reference(*case, REQUEST)
    torch.testing.assert_close(got.output, expected.output, atol=2e-5, rtol=1e-4)
    for name in ("entropy", "max_weight", "mean_distance", "received_sum", "distance_sum", "pooled_mean", "pooled_max"):
        torch.testing.assert_close(
            got.measures[name].double(), expected.measures[name], atol=5e-5, rtol=1e-5, equal_nan=True
        )
    for name in ("visible_keys", "visible_rows", "distance_rows", "sampled_rows"):
        assert torch.equal(got.measures[name], expected.measures[name])


@settings(max_examples=60, deadline=None)
@given(cases())
def test_mass_is_neither_made_nor_lost(case):
    got = attend_tiled(*case, REQUEST)
    rows = got.measures["visible_keys"] > 0
    mass = torch.where(rows, 1 - got.measures["learned_sink_mass"], 0.0).sum(-1)
    torch.testing.assert_close(got.measures["received_sum"].sum(-1), mass, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(got.measures["distance_sum"].sum(-1), mass, atol=1e-4, rtol=1e-4)
    assert (
        got.measures["visible_rows"].sum() == got.measures["visible_keys"].sum() == got.measures["distance_rows"].sum()
    )
    entropy = got.measures["entropy"][rows]
    outcomes = got.measures["visible_keys"][rows] + (case[3].sink is not None)
    assert (entropy >= 0).all() and (entropy <= outcomes.log() + 1e-4).all()
    assert (got.measures["negligible"] <= got.measures["visible_keys"]).all()
    coverage = got.measures["coverage"]
    assert (coverage.diff(dim=-1) >= 0).all()
    assert (coverage <= got.measures["visible_keys"][:, :, got.measures["sampled_rows"], None]).all()

"""The tiled path against the dense float64 reference: compiled loops and tensor operations, every rule, odd sizes."""

import pytest
import torch

import kernels.tiled
from kernels.measures import COUNTS, NOTHING, Attended, MeasureRequest
from kernels.reference import attend_reference
from kernels.score import ScoreSpec
from kernels.sweep import NumbaSweep
from kernels.sweep_torch import TorchSweep
from kernels.tiled import attend_tiled
from tests.kernels.triton_variants import VARIANTS

HIDDEN = float("-inf")
SWEEPS = {"compiled": NumbaSweep, "torch": TorchSweep}
OUTPUT_TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@pytest.fixture(params=SWEEPS)
def sweep(request, monkeypatch):
    """Both ways to sweep over a strip."""
    monkeypatch.setattr(kernels.tiled, "choose_sweep", lambda device: SWEEPS[request.param])


def random_inputs(n_query, n_key, *, batch=1, heads=4, key_heads=2, features=16, columns=8, dtype=torch.float32):
    query = 1.5 * torch.randn(batch, heads, n_query, features)
    key, value = torch.randn(batch, key_heads, n_key, features), torch.randn(batch, key_heads, n_key, columns)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def assert_same(got: Attended, expected: Attended, tolerance: float = 1e-5, counts_off: int = 0):
    """All measures; counts may be off by `counts_off` where a float32 weight lies on the threshold."""
    torch.testing.assert_close(
        got.output.double(), expected.output.double(), atol=OUTPUT_TOLERANCE[got.output.dtype], rtol=1e-4
    )
    torch.testing.assert_close(got.lse.double(), expected.lse, atol=1e-4, rtol=1e-6)
    assert got.measures.keys() == expected.measures.keys()
    for name, values in expected.measures.items():
        own = got.measures[name]
        assert own.shape == values.shape, name
        if name in COUNTS:
            assert own.dtype == torch.int64
            if name == "top_keys":  # the order of weights too small for a float32 is not kept
                own = torch.where(expected.measures["top_weights"] < 1e-30, values, own)
            assert (own - values).abs().max() <= (counts_off if name in {"negligible", "coverage"} else 0), name
        else:
            assert own.dtype == torch.float32
            torch.testing.assert_close(
                own.double(), values, atol=tolerance, rtol=1e-5, equal_nan=True, msg=lambda text, n=name: f"{n}: {text}"
            )


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.interpreted], ids=lambda v: v.name)
def test_every_rule_and_request(variant, sweep):
    inputs = variant.build()
    assert_same(attend_tiled(*inputs), attend_reference(*inputs))


@pytest.mark.parametrize("features", [8, 24, 80, 96, 112, 128, 192, 256])
def test_head_sizes(features):  # case 80
    query, key, value = random_inputs(33, 33, features=features)
    score = ScoreSpec(features**-0.5)
    got = attend_tiled(query, key, value, score, MeasureRequest())
    assert_same(got, attend_reference(query, key, value, score, MeasureRequest()))
    if features == 128:
        halved = attend_reference(query[..., :64], key[..., :64], value, score, MeasureRequest())
        assert (got.lse - halved.lse).abs().max() > 0.1


@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 63, 64, 65, 127, 130, 300])
@pytest.mark.parametrize("causal", [True, False])
def test_odd_lengths_with_nan_past_the_end(length, causal, sweep):  # case 81
    batch, features = 2, 24
    query, key, value = (
        torch.full((batch, heads, length + 3, features), torch.nan)[:, :, 1 : length + 1] for heads in (6, 2, 2)
    )
    for tensor in (query, key, value):
        tensor[:] = torch.randn(tensor.shape)
    score, request = ScoreSpec(0.3, causal=causal), MeasureRequest(pooled=10, sampled=20, top=2, scores=True)
    got, expected = (f(query, key, value, score, request) for f in (attend_tiled, attend_reference))
    assert_same(got, expected, counts_off=1)
    assert got.output.isfinite().all()


@pytest.mark.parametrize("n_query, n_key", [(1, 37), (5, 40), (40, 5), (33, 65)])
@pytest.mark.parametrize("rule", [{}, {"window": 7, "keep_first": 2}, {"chunk": 9}, {"causal": False}], ids=str)
def test_rows_are_the_last_keys_where_causal(n_query, n_key, rule, sweep):  # trap 3
    query, key, value = random_inputs(n_query, n_key)
    request = MeasureRequest(pooled=6, scores=True, tokens=torch.randint(0, 5, (1, n_key)))
    score = ScoreSpec(0.25, **rule)
    got = attend_tiled(query, key, value, score, request)
    assert_same(got, attend_reference(query, key, value, score, request), counts_off=1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_float32(dtype, sweep):  # case 8
    query, key, value = random_inputs(130, 130, dtype=dtype)
    got = attend_tiled(query, key, value, ScoreSpec(0.25), MeasureRequest())
    assert got.output.dtype == dtype and got.lse.dtype == torch.float32
    assert_same(got, attend_reference(query, key, value, ScoreSpec(0.25), MeasureRequest()), counts_off=1)
    torch.testing.assert_close(got.measures["received_sum"].sum(-1), torch.full((1, 4), 130.0), rtol=0, atol=1e-3)


def test_strided_and_expanded_inputs(sweep):
    as_projected = torch.randn(2, 33, 6, 16).transpose(1, 2)[..., ::2]
    key = torch.randn(1, 1, 33, 8).expand(2, 3, 33, 8)
    score = ScoreSpec(0.5, mask=(torch.rand(1, 1, 33, 33) > 0.3).expand(2, 6, 33, 33))
    got, expected = (f(as_projected, key, key, score, MeasureRequest()) for f in (attend_tiled, attend_reference))
    assert_same(got, expected)


@pytest.mark.parametrize("scale", [1e6, -1e6, 3e4])
def test_huge_scores(scale, sweep):
    query, key, value = random_inputs(65, 65)
    score = ScoreSpec(scale, sink=torch.tensor([-1e6, 0.0, 1e6, HIDDEN]))
    request = MeasureRequest(top=2)
    assert_same(attend_tiled(query, key, value, score, request), attend_reference(query, key, value, score, request))


def test_rows_that_see_nothing(sweep):  # case 84
    mask = torch.ones(1, 1, 9, 9, dtype=torch.bool)
    mask[..., 0, :], mask[..., 5, :], mask[..., 5, 5] = False, False, True
    query, key, value = random_inputs(9, 9)
    got = attend_tiled(query, key, value, ScoreSpec(0.25, causal=False, mask=mask), MeasureRequest())
    assert (got.output[:, :, 0] == 0).all() and (got.lse[:, :, 0] == HIDDEN).all()
    assert (got.measures["visible_keys"][:, :, 0] == 0).all() and (got.measures["max_key"][:, :, 0] == -1).all()
    assert got.measures["entropy"][:, :, 0].isnan().all()
    assert (got.measures["max_weight"][:, :, 5] == 1).all() and (got.measures["max_key"][:, :, 5] == 5).all()


def test_nan_is_never_a_weight_of_zero(sweep):  # case 9
    query, key, value = random_inputs(17, 17)
    query[0, 1, 4] = torch.nan
    got = attend_tiled(query, key, value, ScoreSpec(0.25), MeasureRequest())
    assert got.output[0, 1, 4].isnan().all() and got.lse[0, 1, 4].isnan()
    assert got.measures["entropy"][0, 1, 4].isnan() and got.measures["max_weight"][0, 1, 4].isnan()
    assert got.output[0, 0].isfinite().all() and got.output[0, 1, :4].isfinite().all()


def test_measures_not_asked_for_are_not_there(sweep):
    got = attend_tiled(*random_inputs(17, 17), ScoreSpec(0.25), NOTHING)
    assert got.measures == {} and got.impl == "tiled"


def test_many_strips_and_any_number_of_threads_give_the_same():
    query, key, value = random_inputs(700, 700, heads=6, key_heads=3)
    request = MeasureRequest(tokens=torch.randint(0, 9, (1, 700)), top=4, groups=torch.randint(-1, 3, (1, 700)))
    score, before = ScoreSpec(0.25), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        twice = [attend_tiled(query, key, value, score, request) for _ in range(2)]
        torch.set_num_threads(1)
        alone = attend_tiled(query, key, value, score, request)
    finally:
        torch.set_num_threads(before)
    for name, values in twice[0].measures.items():
        assert torch.equal(values.nan_to_num(-1), twice[1].measures[name].nan_to_num(-1)), name
    assert_same(twice[0], attend_reference(query, key, value, score, request), counts_off=1)
    assert_same(alone, attend_reference(query, key, value, score, request), counts_off=1)


def test_threads_of_others_are_left_alone():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with torch.inference_mode():  # kept per thread: the threads of the tiled path must follow
            attend_tiled(*random_inputs(300, 300), ScoreSpec(0.25), MeasureRequest())
        assert torch.get_num_threads() == 2 and not torch.is_inference_mode_enabled()
    finally:
        torch.set_num_threads(before)


def test_an_error_in_a_thread_is_raised_and_the_next_call_works(monkeypatch):
    inputs = random_inputs(300, 300)
    expected = attend_tiled(*inputs, ScoreSpec(0.25), MeasureRequest())

    def fail(*_):
        raise MemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(NumbaSweep, "sweep", fail)
        with pytest.raises(MemoryError, match="no room"):
            attend_tiled(*inputs, ScoreSpec(0.25), MeasureRequest())
    assert torch.equal(attend_tiled(*inputs, ScoreSpec(0.25), MeasureRequest()).output, expected.output)


def test_keys_outside_the_window_are_never_touched():
    pieces = kernels.tiled.cut(
        kernels.tiled.spans_of(ScoreSpec(0.25, window=16), 1, 400, 400), MeasureRequest(), 2, 2, on_cpu=True
    )
    strips = [strip for piece in pieces for strip in piece.strips]
    assert sorted({rows.start for rows, _ in strips})[0] == 0
    assert sum(rows.stop - rows.start for rows, _ in strips) == 2 * 400  # each row once for each key head
    assert all(columns.stop - columns.start <= rows.stop - rows.start + 15 for rows, columns in strips)

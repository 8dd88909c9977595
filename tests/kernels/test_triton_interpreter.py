"""Every variant of the table, interpreted, against the dense float64 reference, on poisoned memory."""

import pytest
import torch

from kernels.measures import COUNTS
from kernels.reference import attend_reference
from kernels.triton_attend import attend_triton
from tests.kernels.triton_variants import VARIANTS

TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3}  # float16: the output is rounded to it


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch):
    """Memory that nobody has written holds NaN, or -7 where whole numbers belong."""
    plain = {name: getattr(torch, name) for name in ("empty", "empty_like")}

    def poisoned(tensor):
        return tensor.fill_(torch.nan if tensor.is_floating_point() else -7)

    for name, function in plain.items():
        monkeypatch.setattr(torch, name, lambda *a, _function=function, **k: poisoned(_function(*a, **k)))
    new_empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *a, **k: poisoned(new_empty(*a, **k)))


def assert_same(name, got, expected, tolerance):
    assert got.shape == expected.shape, f"{name}: expected shape {list(expected.shape)}, got {list(got.shape)}"
    if name in COUNTS:
        assert got.dtype == torch.int64 and torch.equal(got, expected), f"{name} differs"
        return
    torch.testing.assert_close(
        got.double(), expected.double(), atol=tolerance, rtol=1e-5, equal_nan=True, msg=lambda text: f"{name}: {text}"
    )


# The interpreter computes hidden cells in numpy, which warns where a GPU would not; they are taken out afterwards.
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.interpreted], ids=lambda v: v.name)
def test_interpreted_kernels_agree_with_the_reference(variant):
    inputs = variant.build()
    got, expected = attend_triton(*inputs), attend_reference(*inputs)
    assert got.impl == "triton" and got.output.dtype == variant.dtype
    assert got.measures.keys() == expected.measures.keys()
    assert_same("output", got.output, expected.output, TOLERANCE[variant.dtype])
    assert_same("lse", got.lse, expected.lse, 1e-4)
    for name, values in expected.measures.items():
        assert_same(name, got.measures[name], values, 1e-5)

"""Bytes and back: what each codec keeps and what it refuses."""

import numpy as np
import pytest
import torch

from backend.errors import Damaged
from backend.store import codec


def test_int16_errs_by_at_most_half_a_step_of_its_row():
    values = torch.randn(33, 7) * torch.logspace(-6, 6, 33)[:, None]
    back = codec.decode(codec.encode(values, "int16"), "int16", (33, 7))
    step = values.abs().amax(1, keepdim=True) / 32767
    assert ((torch.from_numpy(back) - values).abs() <= 0.51 * step).all()
    assert torch.equal(codec.through_int16(values), torch.from_numpy(back))


def test_int16_keeps_zeros_and_the_largest_value():
    values = torch.tensor([[0.0, 0.0], [-3.0, 1.5]])
    back = codec.decode(codec.encode(values, "int16"), "int16", (2, 2))
    assert back[0].tolist() == [0.0, 0.0]
    assert back[1, 0] == pytest.approx(-3.0, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_what_a_model_computed_is_kept_bit_for_bit(dtype):
    values = torch.randn(5, 3).to(dtype)
    name = str(dtype).removeprefix("torch.")
    back = codec.decode(codec.encode(values, name), name, (5, 3))
    assert torch.equal(torch.from_numpy(back.copy()), values.float())


@pytest.mark.parametrize("name", ["float32:triangle", "float16:triangle"])
@pytest.mark.parametrize("n", [1, 2, 17])
def test_a_triangle_keeps_the_lower_cells_and_fills_the_others(name, n):
    values = torch.rand(n, n).half().float()
    back = codec.decode(codec.encode(values, name), name, (n, n), fill=np.nan)
    lower = np.tri(n, dtype=bool)
    assert np.array_equal(back[lower], values.numpy()[lower])
    assert np.isnan(back[~lower]).all()


@pytest.mark.parametrize(
    ("name", "shape"),
    [("int16", (3, 4)), ("float32", (3, 4)), ("float16:triangle", (4, 4)), ("int16", (3,)), ("pickle", (3, 4))],
)
def test_bytes_of_another_size_or_codec_are_damage(name, shape):
    with pytest.raises(Damaged, match="expected"):
        codec.decode(b"\x00" * 7, name, shape)

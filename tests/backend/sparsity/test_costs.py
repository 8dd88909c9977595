"""Formulas of what is saved, against numbers that are known."""

import pytest

from backend.errors import Refused
from backend.sparsity.costs import costs
from backend.types import LayerInfo


def layers(count=32, window=None, attention="softmax"):
    return [LayerInfo("self", at, f"layers.{at}", attention, 32, 8, 128, 128, window) for at in range(count)]


def test_a_cache_of_eight_billion_parameters_at_128k():
    assert costs(layers(), 131_072).cache_bytes == 2 * 32 * 8 * 128 * 2 * 131_072 == 17_179_869_184
    assert costs(layers(), 131_072, 0.25).cache_bytes == 17_179_869_184 // 4
    assert costs(layers(), 131_072, bytes_per_number=4).cache_bytes == 2 * 17_179_869_184


def test_operations_of_attention():
    one = costs(layers(1), 10)
    assert one.decode_operations == 2 * 32 * 10 * 256 and one.prefill_operations == 2 * 32 * 55 * 256


def test_keys_out_of_reach_are_no_saving():
    windowed = costs(layers(1, window=4), 10)
    assert windowed.cache_bytes == 8 * 4 * 256 * 2
    assert windowed.prefill_operations == 2 * 32 * (1 + 2 + 3 + 4 * 7) * 256
    assert costs(layers(1, window=4), 10, 0.5).cache_bytes == windowed.cache_bytes // 2
    assert costs(layers(attention="mamba"), 10).cache_bytes == 0


@pytest.mark.parametrize("length, keep", [(0, 1.0), (5, 1.5), (5, -0.1)])
def test_nonsense_is_refused(length, keep):
    with pytest.raises(Refused):
        costs(layers(), length, keep)

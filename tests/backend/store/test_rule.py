"""A rule survives storage whole, and one head's part of it weighs as the whole does."""

import pytest
import torch

from backend.errors import Damaged
from backend.store import rule
from kernels.score import ScoreSpec
from kernels.window import weights

H, N = 4, 12
RULES = {
    "plain": {},
    "window": {"window": 5, "keep_first": 2},
    "around": {"causal": False, "around": (2, 3)},
    "chunk": {"chunk": 4, "softcap": 20.0},
    "tensors": {
        "bias_by_distance": torch.randn(H, 2 * N - 1),
        "temperature": torch.rand(H) + 0.5,
        "key_bias": torch.randn(1, 1, N),
        "row_bias": torch.randn(1, H, N),
        "row_bias_keys": torch.arange(N) % 3 == 0,
        "bias": torch.randn(1, H, N, N),
        "key_padding": torch.arange(N)[None] >= 2,
        "mask": torch.rand(1, 1, N, N) > 0.2,
        "sink": torch.randn(H),
    },
}


@pytest.mark.parametrize("name", RULES)
def test_every_field_survives(name):
    score = ScoreSpec(scale=0.3, **RULES[name])
    text, tensors = rule.to_json(score)
    stored = {key: rule.tensor_from(*rule.tensor_bytes(tensor)) for key, tensor in tensors.items()}
    back = rule.from_json(text, stored)
    for field, value in vars(score).items():
        found = getattr(back, field)
        assert torch.equal(found, value) if isinstance(value, torch.Tensor) else found == value, field


@pytest.mark.parametrize("name", RULES)
def test_one_heads_part_gives_that_heads_weights(name):
    score = ScoreSpec(scale=0.3, **RULES[name])
    query, key, lse = torch.randn(1, H, N, 8), torch.randn(1, H, N, 8), torch.randn(1, H, N)
    whole = weights(query, key, score, lse, slice(0, N), slice(0, N))
    for head in range(H):
        own = slice(head, head + 1)
        part = weights(query[:, own], key[:, own], rule.for_head(score, head), lse[:, own], slice(0, N), slice(0, N))
        assert torch.allclose(part[0, 0], whole[0, head], atol=1e-6)


def test_every_tensor_of_a_rule_says_where_its_heads_are():
    names = {name for name in vars(ScoreSpec(scale=1.0)) if "Tensor" in ScoreSpec.__annotations__[name]}
    assert names == set(rule.HEAD_AXIS)


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"scale": 1, "unknown": 2}', '{"scale": "NaN"}', '{"scale": 1, "window": 0}']
)
def test_what_is_no_rule_is_damage(text):
    with pytest.raises(Damaged):
        rule.from_json(text, {})

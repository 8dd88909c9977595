"""The attention function and the mask function: rules read off masks, and what is refused."""

import pytest
import torch
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    chunked_causal_mask_function,
    sliding_window_bidirectional_mask_function,
    sliding_window_causal_mask_function,
)

from backend.attention import attention, by_distance, compact_mask
from backend.errors import Refused
from backend.masks import CompactMask, Rule, read_rule
from tests.backend import tiny


@pytest.mark.parametrize("length", [1, 2, 5, 64, 3000])
@pytest.mark.parametrize(
    ("function", "local", "rule"),
    [
        (causal_mask_function, None, Rule(causal=True)),
        (bidirectional_mask_function, None, Rule(causal=False)),
        (sliding_window_causal_mask_function(7), 7, Rule(causal=True, window=7)),
        (sliding_window_bidirectional_mask_function(7), 7, Rule(causal=False, around=(7, 7))),
        (chunked_causal_mask_function(7, torch.zeros(1, dtype=torch.int64)), 7, Rule(causal=True, chunk=7)),
        (causal_mask_function, 7, Rule(causal=True)),  # a family that names a window and does not use it
    ],
    ids=["causal", "both sides", "window", "window to both sides", "chunk", "unused window"],
)
def test_rules_are_told_apart_even_on_short_prompts(function, local, rule, length):
    assert read_rule(function, 1, length, local, "cpu") == rule


def test_a_mask_off_by_one_has_no_rule():
    assert read_rule(sliding_window_causal_mask_function(6), 1, 40, 7, "cpu") is None


def test_no_mask_of_size_n_by_n_is_built_where_a_rule_fits():
    mask = compact_mask(1, 100_000, 100_000, mask_function=sliding_window_causal_mask_function(512), local_size=512)
    assert (mask.visible, mask.key_padding, mask.rule) == (None, None, Rule(causal=True, window=512))


def test_padding_is_kept_beside_the_rule():
    padding = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    mask = compact_mask(2, 5, 5, mask_function=causal_mask_function, attention_mask=padding.bool())
    assert mask.visible is None
    assert mask.key_padding.tolist() == padding.bool().tolist()


def test_a_fixed_size_cache_has_no_phantom_keys():
    mask = compact_mask(1, 1, 16, q_offset=9, mask_function=causal_mask_function)
    assert (mask.keys, mask.rule) == (10, Rule(causal=True))


def test_chunks_behind_left_padding_become_a_boolean_mask():
    padding = torch.tensor([[False, False, True, True, True, True, True, True]])
    function = chunked_causal_mask_function(3, torch.tensor([2]))
    mask = compact_mask(1, 8, 8, mask_function=function, attention_mask=padding, local_size=3)
    assert mask.visible[0, 0].sum(-1).tolist() == [0, 0, 1, 2, 3, 1, 2, 3]


def test_a_mask_that_comes_back_is_the_same_mask():
    mask = compact_mask(1, 4, 4, mask_function=causal_mask_function)
    assert compact_mask(1, 4, 4, mask_function=causal_mask_function, attention_mask=mask) is mask


def call(**keywords):
    query = torch.randn(1, 2, 4, 8)
    return attention(torch.nn.Module(), query, query, query, None, **keywords)


@pytest.mark.parametrize("keyword", ["head_mask", "indices", "cu_seq_lens_q", "sinks"])
def test_keywords_that_may_change_the_weights_are_refused(keyword):
    with pytest.raises(Refused, match=keyword):
        call(**{keyword: torch.ones(2)})


def test_dropout_is_refused():
    with pytest.raises(Refused, match="eval"):
        call(dropout=0.1)


def test_output_is_what_sdpa_gives():
    query, key = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8)
    ours, nothing = attention(torch.nn.Module(), query, key, key, None, scaling=0.3)
    repeated = key.repeat_interleave(2, dim=1)
    theirs = torch.nn.functional.scaled_dot_product_attention(query, repeated, repeated, is_causal=True, scale=0.3)
    assert nothing is None
    assert ours.shape == (2, 5, 4, 8)
    assert torch.allclose(ours, theirs.transpose(1, 2), atol=1e-5)


def test_float_masks_hide_and_bias():
    query = torch.randn(1, 2, 4, 8)
    mask = torch.full((1, 1, 4, 4), torch.finfo(torch.float32).min).triu(1)
    mask[..., 3, 0] = 1.5
    ours, _ = attention(torch.nn.Module(), query, query, query, mask)
    theirs = torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)
    assert torch.allclose(ours, theirs.transpose(1, 2), atol=1e-5)


@pytest.mark.parametrize(("n_query", "n_key"), [(5, 5), (3, 7), (7, 3), (1, 6), (6, 1)])
def test_a_bias_by_distance_is_recognised(n_query, n_key):
    table = torch.randn(2, n_query + n_key - 1)
    index = torch.arange(n_query)[:, None] - torch.arange(n_key) + n_key - 1
    bias = table[:, index][None]
    assert torch.equal(by_distance(bias), table)
    if n_query > 1 < n_key:
        bias = bias.clone()
        bias[0, 1, -1, -1] += 1
        assert by_distance(bias) is None


def test_a_t5_bias_reaches_the_weights():
    query, bias = torch.randn(1, 2, 6, 8), torch.randn(1, 2, 6, 6)
    ours, _ = attention(torch.nn.Module(), query, query, query, None, scaling=1.0, position_bias=bias, is_causal=False)
    theirs = torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=bias, scale=1.0)
    assert torch.allclose(ours, theirs.transpose(1, 2), atol=1e-5)


def test_a_mask_moves_like_a_tensor():
    mask = CompactMask((1, 1, 2, 2), Rule(causal=True), 2, key_padding=torch.tensor([[True, False]]))
    assert mask.to("cpu").key_padding.tolist() == [[True, False]]


def test_padding_reaches_the_kernel():
    """Without a mask function of the same name transformers would pass None and padding would be lost."""
    from backend.attention import switched
    from backend.sites import attend
    from kernels.measures import NOTHING

    model, scores = tiny.build("llama"), []

    def handler(call):
        scores.append(call.score)
        return attend(call.query, call.key, call.value, call.score, NOTHING).output

    batch = tiny.padded([[5, 6, 7], [5, 6, 7, 8, 9]], "left")
    with switched(model, handler):
        model(**batch)
    assert scores[0].key_padding.tolist() == batch["attention_mask"].bool().tolist()

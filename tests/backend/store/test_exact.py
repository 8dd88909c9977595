"""What is kept of queries and keys gives the weights back within the measured error."""

from dataclasses import replace

import pytest
import torch
from store_records import layer_record

from backend.errors import Refused
from backend.store import codec, exact
from kernels.score import ScoreSpec
from kernels.window import weights


def arrays(record, small=False):
    """The kept arrays, decoded: (part, head) -> (codec, tensor)."""
    blobs, lse = exact.keep(record, small)
    decoded = {
        (b.part, b.head): (b.codec, torch.from_numpy(codec.decode(b.data, b.codec, b.shape).copy())) for b in blobs
    }
    return decoded, lse, {b.head: b.weight_error for b in blobs if b.part == "query"}


def kept_weights(record, decoded, head):
    n = record.query.shape[1]
    group = record.info.heads // record.info.key_heads
    query, key, lse = (decoded[place][1] for place in (("query", head), ("key", head // group), ("lse", head)))
    return weights(query[None, None], key[None, None], record.score, lse[None, None], slice(0, n), slice(0, n))[0, 0]


def true_weights(record, head):
    n = record.query.shape[1]
    whole = weights(
        record.query[None].float(), record.key[None].float(), record.score, record.lse[None], slice(0, n), slice(0, n)
    )
    return whole[0, head]


def test_16_bits_keep_every_weight_within_2e_3_and_rows_sum_to_one():
    record = layer_record(n=130, heads=4, key_heads=2, dim=16, scale=3.0)
    decoded, lse, errors = arrays(record)
    for head in range(4):
        assert decoded["query", head][0] == decoded["key", head // 2][0] == "int16"
        found = kept_weights(record, decoded, head)
        assert (found.sum(-1) - 1).abs().max() < 1e-5
        assert (found - true_weights(record, head)).abs().max() <= max(2 * errors[head], 1e-5)
        assert errors[head] <= exact.LARGEST_ERROR
        assert torch.equal(lse[head], decoded["lse", head][1])


def test_the_lse_is_that_of_the_decoded_queries_and_keys():
    record = layer_record(n=130, heads=2, key_heads=2, dim=16, scale=8.0)
    decoded, _, _ = arrays(record)
    with_original = dict(decoded) | {("lse", 0): ("float32", record.lse[0])}
    off = (kept_weights(record, with_original, 0).sum(-1) - 1).abs().max()
    assert off > 3 * (kept_weights(record, decoded, 0).sum(-1) - 1).abs().max()


def test_a_head_that_16_bits_would_change_is_kept_in_float32_with_its_keys():
    record = layer_record(n=64, heads=4, key_heads=2, dim=16, scale=1.0)
    query, key = record.query.clone(), record.key.clone()
    query[2] += 60.0  # large scores that differ by little: the last bits of the keys decide
    key[1] += 60.0
    causal = torch.ones(64, 64, dtype=torch.bool).tril()
    scores = query.double() @ key.repeat_interleave(2, 0).double().mT * record.score.scale
    lse = torch.logsumexp(scores.masked_fill(~causal, -torch.inf), -1).float()
    record = replace(record, query=query, key=key, lse=lse)
    decoded, _, errors = arrays(record)
    assert decoded["query", 2][0] == decoded["key", 1][0] == "float32"
    assert decoded["query", 0][0] == decoded["query", 1][0] == decoded["key", 0][0] == "int16"
    assert max(errors.values()) <= exact.LARGEST_ERROR
    assert (kept_weights(record, decoded, 2) - true_weights(record, 2)).abs().max() <= exact.LARGEST_ERROR


def test_a_small_analysis_is_kept_in_float32():
    record = layer_record(n=20)
    decoded, lse, errors = arrays(record, small=True)
    assert {name for name, _ in decoded.values()} == {"float32"}
    assert torch.equal(decoded["query", 3][1], record.query[3]) and set(errors.values()) == {0.0}
    assert torch.equal(lse, record.lse.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_models_are_kept_bit_for_bit(dtype):
    record = layer_record(n=40, dtype=dtype)
    decoded, _, errors = arrays(record)
    assert torch.equal(decoded["query", 1][1], record.query[1].float())
    assert torch.equal(decoded["key", 0][1], record.key[0].float()) and set(errors.values()) == {0.0}


def test_only_the_chosen_heads_are_kept_and_the_keys_they_read():
    decoded, _, errors = arrays(layer_record(n=40, exact=(2,)))
    assert set(decoded) == {("query", 2), ("lse", 2), ("key", 1)} and set(errors) == {2}
    assert arrays(layer_record(n=40, exact=()))[0] == {}


def test_numbers_that_16_bits_cannot_hold_stay_float32():
    record = layer_record(n=40)
    query = record.query.clone()
    query[1, 5, 0] = torch.inf
    decoded, *_ = arrays(replace(record, query=query))
    assert decoded["query", 1][0] == "float32" and decoded["query", 0][0] == "int16"


@pytest.mark.parametrize(("n", "expected"), [(60, "float32:triangle"), (513, "float16:triangle")])
def test_dense_maps_by_length(n, expected):
    record = dense_record(n)
    blobs, lse = exact.keep(record, small=False)
    assert {b.codec for b in blobs} == {expected} and lse.isnan().all()
    back = codec.decode(blobs[0].data, blobs[0].codec, blobs[0].shape)
    assert abs(back - record.dense[0].numpy()).max() <= blobs[0].weight_error + 1e-9 <= 2.5e-4


def test_dense_maps_above_1024_tokens_are_refused():
    with pytest.raises(Refused, match=r"1024 tokens; this one has 1025"):
        exact.keep(dense_record(1025), small=False)


def dense_record(n):
    weights = torch.rand(1, n, n).tril()
    empty = torch.zeros(1, 0, 4)
    record = layer_record(n=4, heads=1, key_heads=1, score=ScoreSpec(scale=1.0))
    return replace(record, query=empty, key=empty, dense=weights / weights.sum(-1, keepdim=True), exact=(0,))

"""The table of variants reaches everything a caller can reach; a field, size or type left out fails here."""

import itertools

import pytest
import torch

from kernels.api import TRITON_FEATURES
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec
from kernels.triton_attend import attend_triton
from kernels.triton_launch import MOST_FEATURES, TABLE, padded
from kernels.triton_rows import RowSums, row_pass
from kernels.triton_score import Rule, rule_of
from tests.kernels.triton_variants import VARIANTS, fields_of

INTERPRETED = [variant for variant in VARIANTS if variant.interpreted]


def test_names_are_unique():
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)


@pytest.mark.parametrize("name", [name for name in fields_of(ScoreSpec) if name != "scale"])
def test_every_field_of_the_rule_is_interpreted(name):
    assert any(name in variant.rule for variant in INTERPRETED), f"no interpreted variant sets ScoreSpec.{name}"


@pytest.mark.parametrize("name", fields_of(MeasureRequest))
def test_every_field_of_the_request_is_interpreted_with_and_without(name):
    requests = [variant.build()[-1] for variant in INTERPRETED]
    wanted = [
        getattr(request, name) not in (None, False, 0) if not _tensor(request, name) else True for request in requests
    ]
    assert any(wanted) and not all(wanted), f"MeasureRequest.{name} is the same in all interpreted variants"


def _tensor(request, name):
    return isinstance(getattr(request, name), torch.Tensor)


@pytest.mark.parametrize("name", Rule._fields)
def test_every_part_of_the_rule_is_there_in_one_variant_and_absent_in_another(name):
    always = {"n_query", "n_key", "offset", "scale"}
    there = []
    for variant in INTERPRETED:
        query, key, _, score, _ = variant.build()
        there.append(getattr(rule_of(score, query.shape[0], query.shape[2], key.shape[2]), name) is not None)
    assert any(there)
    assert name in always or not all(there), f"no interpreted variant leaves out Rule.{name}"


def test_lengths_head_sizes_and_types_of_the_contract_are_interpreted():
    lengths = {variant.n_query for variant in INTERPRETED} | {variant.length for variant in INTERPRETED}
    assert lengths >= {1, 2, 15, 16, 17, 63, 64, 65, 127, 130}
    sizes = {variant.features for variant in INTERPRETED}
    assert sizes >= {8, 16, 24, 32, 64, 80, 96, 112, 128, 192, 256}
    assert {variant.dtype for variant in INTERPRETED} == {torch.float32, torch.float16}
    assert any(variant.columns not in (None, variant.features) for variant in INTERPRETED)
    assert any(variant.heads[0] > variant.heads[1] > 1 for variant in INTERPRETED)


def test_every_head_size_and_type_of_the_block_table_is_compiled():
    plain = {(v.dtype, padded(v.features)) for v in VARIANTS if not v.interpreted and not v.rule and not v.request}
    types = (torch.bfloat16, torch.float16, torch.float32)
    assert plain >= set(itertools.product(types, (16, 32, 64, 128, 256)))
    assert all(len(choices) == 4 for choices in TABLE.values())
    families, sizes, kernels = (set(part) for part in zip(*TABLE, strict=True))
    assert families == {"wide", "narrow", "cdna"} and sizes == {2, 4} and kernels == {"rows", "rows+tokens", "keys"}


def test_row_sums_are_all_written_by_some_variant(monkeypatch):
    written = set()

    def look(kernel, grid, *arguments, **options):
        for argument in arguments:
            if isinstance(argument, RowSums):
                written.update(name for name in RowSums._fields if getattr(argument, name) is not None)

    monkeypatch.setattr("kernels.triton_rows.launch", look)
    for variant in INTERPRETED:
        if "sink" in variant.rule or "tokens" in variant.request:
            query, key, value, score, request = variant.build()
            rule = rule_of(score, query.shape[0], query.shape[2], key.shape[2])
            row_pass(query, key, value, score, rule, rows=request.rows, tokens=request.tokens)
    assert written == set(RowSums._fields)


def test_bfloat16_is_refused_in_the_interpreter():
    query = torch.zeros(1, 1, 4, 16, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"interpreter.*bfloat16"):
        attend_triton(query, query, query, ScoreSpec(1.0), MeasureRequest())


def test_heads_beyond_the_table_are_refused():
    assert TRITON_FEATURES == MOST_FEATURES  # what "auto" keeps away from the kernels
    query = torch.zeros(1, 1, 2, MOST_FEATURES + 1)
    with pytest.raises(ValueError, match=r"at most 256.*got 257.*tiled"):
        attend_triton(query, query, query, ScoreSpec(1.0), MeasureRequest())


def test_heads_that_lie_two_to_the_31_apart():
    room = torch.empty((1 << 31) + 64, dtype=torch.float16)  # pages nobody touches take no memory
    far = room.as_strided((1, 2, 3, 16), (0, 1 << 31, 16, 1))
    far.copy_(torch.randn(1, 2, 3, 16))
    assert_agree(far)


def test_rows_that_lie_far_apart():
    room = torch.empty((1 << 26) + 64, dtype=torch.float16)
    far = room.as_strided((1, 1, 3, 16), (0, 0, 1 << 25, 1))
    far.copy_(torch.randn(1, 1, 3, 16))
    assert_agree(far)


def assert_agree(far):
    near = far.contiguous()
    score, request = ScoreSpec(0.25), MeasureRequest(keys=False, distances=False, pooled=None, sampled=0)
    got, expected = attend_triton(far, far, far, score, request), attend_triton(near, near, near, score, request)
    assert torch.equal(got.output, expected.output) and torch.equal(got.lse, expected.lse)

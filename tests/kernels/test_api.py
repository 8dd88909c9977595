"""The entrance: which implementation runs, and what is refused."""

import pytest
import torch

from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec


def inputs(**changes):
    made = {
        "query": torch.randn(2, 4, 5, 8),
        "key": torch.randn(2, 2, 7, 8),
        "value": torch.randn(2, 2, 7, 3),
    } | changes
    return made["query"], made["key"], made["value"]


@pytest.mark.parametrize("impl, ran", [("auto", "tiled"), ("tiled", "tiled"), ("reference", "reference")])
def test_the_one_that_was_asked_for_runs(impl, ran):
    got = attend(*inputs(), ScoreSpec(0.3), impl=impl)
    assert got.impl == ran and got.output.shape == (2, 4, 5, 3) and got.lse.shape == (2, 4, 5)
    assert got.lse.dtype == (torch.float64 if ran == "reference" else torch.float32)


def test_no_gradient_flows_and_parameters_do_no_harm():
    query, key, value = (tensor.requires_grad_() for tensor in inputs())
    for impl in ("tiled", "reference"):
        assert not attend(query, key, value, ScoreSpec(0.3), impl=impl).output.requires_grad


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"query": torch.randn(4, 5, 8)}, "query: expected four axes"),
        ({"query": torch.randn(2, 4, 0, 8)}, "length 1 or more"),
        ({"key": torch.randn(2, 2, 7, 9)}, r"key: expected \[2, Hk, Nk, 8\]"),
        ({"key": torch.randn(2, 3, 7, 8), "value": torch.randn(2, 3, 7, 3)}, "divides the 4 query heads, got 3"),
        ({"value": torch.randn(2, 2, 6, 3)}, r"value: expected \[2, 2, 7, Dv\]"),
        ({"key": torch.randn(2, 2, 7, 8).half()}, "key: expected torch.float32"),
        ({"query": torch.ones(2, 4, 5, 8, dtype=torch.int64)}, "query: expected float32"),
    ],
)
def test_shapes_and_types_that_do_not_fit(changes, text):
    with pytest.raises(ValueError, match=text):
        attend(*inputs(**changes), ScoreSpec(0.3))


@pytest.mark.parametrize(
    "field, tensor, text",
    [
        ("key_padding", torch.ones(2, 6, dtype=torch.bool), r"expected \[2, 7\], got \[2, 6\]"),
        ("key_padding", torch.ones(2, 7), "expected bool"),
        ("mask", torch.zeros(2, 1, 5, 7), "expected bool"),
        ("bias", torch.zeros(3, 1, 5, 7), r"expected \[2 or 1, 4 or 1, 5, 7\]"),
        ("sink", torch.zeros(2), r"expected \[4\]"),
        ("bias_by_distance", torch.zeros(4, 12), r"expected \[4, 11\]"),
        ("temperature", torch.tensor([1.0, 1.0, 0.0, 1.0]), "expected positive numbers"),
        ("row_padding", torch.ones(2, 7, dtype=torch.bool), r"expected \[2, 5\]"),
    ],
)
def test_rules_that_do_not_fit(field, tensor, text):
    with pytest.raises(ValueError, match=f"ScoreSpec.{field}: .*{text}"):
        attend(*inputs(), ScoreSpec(0.3, **{field: tensor}))


@pytest.mark.parametrize(
    "field, tensor, text",
    [
        ("tokens", torch.zeros(2, 5, dtype=torch.int64), r"expected \[2 or 1, 7\]"),
        ("groups", torch.zeros(2, 7), "whole"),
    ],
)
def test_requests_that_do_not_fit(field, tensor, text):
    with pytest.raises(ValueError, match=f"MeasureRequest.{field}: .*{text}"):
        attend(*inputs(), ScoreSpec(0.3), MeasureRequest(**{field: tensor}))


def test_unknown_names_and_missing_devices(monkeypatch):
    with pytest.raises(ValueError, match="expected one of auto, reference, tiled, triton, got 'fast'"):
        attend(*inputs(), ScoreSpec(0.3), impl="fast")
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(RuntimeError, match="expected tensors on a GPU, or TRITON_INTERPRET=1"):
        attend(*inputs(), ScoreSpec(0.3), impl="triton")


def test_bfloat16_in_the_interpreter_is_refused():  # case 78
    with pytest.raises(RuntimeError, match="bfloat16"):
        attend(*(tensor.bfloat16() for tensor in inputs()), ScoreSpec(0.3), impl="triton")


@pytest.mark.parametrize(
    "fields, text",
    [({"window": 0}, "at least 1 key"), ({"window": 4, "causal": False}, "around=\\(left, right\\)"),
     ({"softcap": -1.0}, "positive number"), ({"chunk": 0}, "at least 1 position"), ({"scale": float("nan")}, "finite"),
     ({"row_bias": torch.zeros(1, 1, 5)}, "go together")])  # fmt: skip
def test_rules_that_mean_nothing(fields, text):
    with pytest.raises(ValueError, match=text):
        ScoreSpec(**({"scale": 0.3} | fields))

"""Input checks of kernels/api.py: every message says what was expected, what came, what to do."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def check_inputs(query: Tensor, key: Tensor, value: Tensor, score: ScoreSpec, request: MeasureRequest) -> None:
    """Raise ValueError where tensors, rule and request do not fit each other."""
    check_query_and_key(query, key)
    batch, heads, n_query, _ = query.shape
    key_heads, n_key = key.shape[1:3]
    if value.ndim != 4 or value.shape[:3] != key.shape[:3] or value.shape[3] < 1:
        raise ValueError(f"value: expected [{batch}, {key_heads}, {n_key}, Dv], as the key, got {list(value.shape)}.")
    for name, tensor in (("key", key), ("value", value)):
        if tensor.dtype != query.dtype or tensor.device != query.device:
            raise ValueError(
                f"{name}: expected {query.dtype} on {query.device}, as the query, got {tensor.dtype} on "
                f"{tensor.device}. Convert it before the call."
            )
    check_score(score, batch, heads, n_query, n_key, query.device)
    for name in ("groups", "tokens"):
        tensor = getattr(request, name)
        if tensor is not None:
            expect_shape(f"MeasureRequest.{name}", tensor, ((batch, 1), (n_key,)))
            if tensor.is_floating_point() or tensor.dtype == torch.bool:
                raise ValueError(f"MeasureRequest.{name}: expected whole numbers, got {tensor.dtype}.")


def check_query_and_key(query: Tensor, key: Tensor) -> None:
    """The part that also holds without a value: shapes, types and grouped heads."""
    for name, tensor in (("query", query), ("key", key)):
        if tensor.ndim != 4 or 0 in tensor.shape:
            raise ValueError(f"{name}: expected four axes of length 1 or more, got {list(tensor.shape)}.")
    batch, heads, _, features = query.shape
    if key.shape[0] != batch or key.shape[3] != features:
        raise ValueError(f"key: expected [{batch}, Hk, Nk, {features}], as the query, got {list(key.shape)}.")
    if heads % key.shape[1]:
        raise ValueError(
            f"key: expected a number of key heads that divides the {heads} query heads, got {key.shape[1]}."
        )
    if query.dtype not in FLOATS:
        raise ValueError(
            f"query: expected float32, bfloat16 or float16, got {query.dtype}. Convert it before the call."
        )


def check_score(score: ScoreSpec, batch: int, heads: int, n_query: int, n_key: int, device: torch.device) -> None:
    """Every tensor of the rule has the shape, type and device that its field promises."""
    one_or = {"B": (batch, 1), "H": (heads, 1), "h": (heads,), "q": (n_query,), "k": (n_key,)}
    one_or["d"] = (n_query + n_key - 1,)
    grouped = score.row_bias is not None and score.row_bias.ndim == 4
    if grouped:
        one_or["G"] = (score.row_bias.shape[3],)
        check_groups(score)
    axes = {
        "bias_by_distance": "hd",
        "temperature": "h",
        "key_bias": "BHk",
        "row_bias": "BHqG" if grouped else "BHq",
        "row_bias_keys": "k",
        "bias": "BHqk",
        "key_padding": "bk",
        "mask": "BHqk",
        "sink": "h",
        "row_padding": "bq",
    }
    one_or["b"] = (batch,)
    booleans = {"row_bias_keys", "key_padding", "mask", "row_padding"}
    for name, letters in axes.items():
        tensor = getattr(score, name)
        if tensor is None:
            continue
        expect_shape(f"ScoreSpec.{name}", tensor, tuple(one_or[letter] for letter in letters))
        if name == "row_bias_keys" and grouped:
            pass  # looked at in check_groups
        elif (tensor.dtype == torch.bool) != (name in booleans):
            wanted = "bool" if name in booleans else "floating point"
            raise ValueError(f"ScoreSpec.{name}: expected {wanted}, got {tensor.dtype}.")
        if tensor.device != device:
            raise ValueError(
                f"ScoreSpec.{name}: expected a tensor on {device}, got one on {tensor.device}. Use ScoreSpec.to."
            )
    if score.temperature is not None and not bool((score.temperature > 0).all()):
        raise ValueError(
            f"ScoreSpec.temperature: expected positive numbers (inf = uniform), got {score.temperature.tolist()}."
        )


def check_groups(score: ScoreSpec) -> None:
    """row_bias_keys names a group of row_bias, or none, for every key."""
    keys, groups = score.row_bias_keys, score.row_bias.shape[3]
    if keys.dtype != torch.int64 or not bool(((keys >= -1) & (keys < groups)).all()):
        raise ValueError(
            f"ScoreSpec.row_bias_keys: expected int64 groups from -1 to {groups - 1}, as row_bias has {groups}, got "
            f"{keys.dtype} from {keys.min()} to {keys.max()}."
        )


def expect_shape(name: str, tensor: Tensor, allowed: tuple[tuple[int, ...], ...]) -> None:
    """Each axis has one of its allowed lengths."""
    if tensor.ndim != len(allowed) or any(n not in choice for n, choice in zip(tensor.shape, allowed, strict=False)):
        wanted = ", ".join(" or ".join(str(n) for n in dict.fromkeys(choice)) for choice in allowed)
        raise ValueError(f"{name}: expected [{wanted}], got {list(tensor.shape)}.")

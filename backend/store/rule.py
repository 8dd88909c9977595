"""A ScoreSpec as JSON and blobs, and the part of it that one head needs."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import torch
from torch import Tensor

from backend.errors import Damaged
from kernels.score import ScoreSpec

# axis of the heads in each tensor of the rule; None = the tensor has no such axis
HEAD_AXIS = {
    "bias_by_distance": 0,
    "temperature": 0,
    "sink": 0,
    "key_bias": 1,
    "row_bias": 1,
    "bias": 1,
    "mask": 1,
    "row_bias_keys": None,
    "key_padding": None,
    "row_padding": None,
}
DTYPES = {"bool": torch.bool, "float32": torch.float32, "float64": torch.float64, "int64": torch.int64}


def to_json(score: ScoreSpec) -> tuple[str, dict[str, Tensor]]:
    """The scalars as JSON text, and the tensors by name: bool, float32, float64 or int64."""
    scalars: dict[str, object] = {}
    tensors: dict[str, Tensor] = {}
    for field in fields(score):
        value = getattr(score, field.name)
        if not isinstance(value, Tensor):
            scalars[field.name] = value
        elif value.dtype in DTYPES.values():
            tensors[field.name] = value.cpu()
        else:
            tensors[field.name] = value.to(torch.float32).cpu()
    return json.dumps(scalars), tensors


def from_json(text: str, tensors: dict[str, Tensor]) -> ScoreSpec:
    """The rule again. Damaged where the text does not describe one."""
    try:
        scalars = json.loads(text)
        if isinstance(scalars.get("around"), list):
            scalars["around"] = tuple(scalars["around"])
        return ScoreSpec(**scalars, **tensors)
    except (ValueError, TypeError, AttributeError) as error:
        raise Damaged(f"The rule of this layer's weights cannot be read ({error}).") from None


def tensor_bytes(tensor: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    """Name of the type, shape and little-endian bytes of one tensor of a rule."""
    array = tensor.contiguous().numpy()
    return str(array.dtype), tuple(array.shape), array.astype(array.dtype.newbyteorder("<")).tobytes()


def tensor_from(dtype: str, shape: tuple[int, ...], data: bytes) -> Tensor:
    """The tensor again; Damaged where type, shape and bytes do not fit each other."""
    if dtype not in DTYPES or len(data) != np.dtype(dtype).itemsize * int(np.prod(shape)):
        raise Damaged(f"expected {dtype} of shape {list(shape)}, got {len(data)} bytes")
    array = np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(shape)
    return torch.from_numpy(array)


def for_head(score: ScoreSpec, head: int) -> ScoreSpec:
    """The rule of one head alone: every tensor with an axis of heads is cut to length 1 there."""
    cut = {}
    for field in fields(score):
        value = getattr(score, field.name)
        if isinstance(value, Tensor):
            axis = HEAD_AXIS[field.name]
            if axis is not None and value.shape[axis] > 1:
                cut[field.name] = value.narrow(axis, head, 1)
    return replace(score, **cut)

"""How rows of numbers become bytes and back.

Everything is little-endian and row by row:

* "float32", "float16": IEEE numbers.
* "bfloat16": the upper 16 bits of a float32 each; what a model computed in bfloat16 is kept bit for bit.
* "int16": one float32 scale per row, all of them first, then the rows as 16-bit integers; a value is integer * scale.
* "float32:triangle", "float16:triangle": of a square array only the cells with column <= row, row by row; the others
  hold what the caller says (0 for weights, NaN for pooled maps).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from backend.errors import Damaged

CODECS = ("float32", "float16", "bfloat16", "int16", "float32:triangle", "float16:triangle")
LARGEST = 32767
WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2, "int16": 2}
NUMPY = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2")}


def encode(values: Tensor, codec: str) -> bytes:
    """Bytes of `values` [..., columns]; "int16" and the triangles want two axes."""
    if codec == "int16":
        integers, scale = to_int16(values)
        return _bytes(scale, "<f4") + _bytes(integers, "<i2")
    if codec == "bfloat16":
        return _bytes(values.contiguous().view(torch.int16), "<i2")
    number, _, layout = codec.partition(":")
    if layout == "triangle":
        values = values[tuple(torch.tril_indices(*values.shape))]
    return _bytes(values.to(getattr(torch, number)), NUMPY[number])


def decode(data: bytes, codec: str, shape: tuple[int, ...], fill: float = 0.0) -> np.ndarray:
    """float32 array of that shape. Damaged where the bytes cannot be of that codec and shape."""
    if codec not in CODECS or len(data) != size(codec, shape):
        raise Damaged(f"expected {codec} of shape {list(shape)}, got {len(data)} bytes")
    if codec == "int16":
        scale = np.frombuffer(data, "<f4", count=shape[0])
        integers = np.frombuffer(data, "<i2", offset=scale.nbytes)
        return integers.reshape(shape).astype(np.float32) * scale.astype(np.float32)[:, None]
    if codec == "bfloat16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    number, _, layout = codec.partition(":")
    flat = np.frombuffer(data, NUMPY[number]).astype(np.float32)
    if layout != "triangle":
        return flat.reshape(shape)
    whole = np.full(shape, fill, np.float32)
    whole[np.tril_indices(shape[0], 0, shape[1])] = flat
    return whole


def size(codec: str, shape: tuple[int, ...]) -> int:
    """Number of bytes that an array of that shape takes; -1 where codec and shape do not fit each other."""
    number, _, layout = codec.partition(":")
    if codec == "int16":
        return 4 * shape[0] + 2 * math.prod(shape) if len(shape) == 2 else -1
    if layout == "triangle":
        return WIDTH[number] * shape[0] * (shape[0] + 1) // 2 if len(shape) == 2 and shape[0] == shape[1] else -1
    return WIDTH[number] * math.prod(shape)


def to_int16(values: Tensor) -> tuple[Tensor, Tensor]:
    """16-bit integers [..., rows, columns] and the float32 scale of each row [..., rows]. The values are finite."""
    values = values.to(torch.float32)
    scale = values.abs().amax(-1) / LARGEST
    divisor = torch.where(scale > 0, scale, 1.0)  # a row of zeros stays one
    integers = (values / divisor[..., None]).round_().clamp_(-LARGEST, LARGEST).to(torch.int16)
    return integers, scale


def through_int16(values: Tensor) -> Tensor:
    """What "int16" gives back: float32, same shape."""
    integers, scale = to_int16(values)
    return integers.to(torch.float32) * scale[..., None]


def _bytes(values: Tensor, dtype: str | np.dtype) -> bytes:
    return np.ascontiguousarray(values.detach().cpu().numpy(), dtype=dtype).tobytes()

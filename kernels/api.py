"""The one entrance to attention that measures itself: check, choose an implementation, say which it was."""

from __future__ import annotations

import importlib.util
import os

import torch
from torch import Tensor

from kernels.checks import check_inputs
from kernels.measures import Attended, MeasureRequest
from kernels.reference import attend_reference
from kernels.score import ScoreSpec
from kernels.tiled import attend_tiled
from kernels.window import weights

__all__ = ["IMPLEMENTATIONS", "Attended", "attend", "weights"]

TRITON_FEATURES = 256  # larger heads do not fit the kernels' tiles
IMPLEMENTATIONS = ("auto", "reference", "tiled", "triton")


@torch.no_grad()
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: ScoreSpec,
    request: MeasureRequest | None = None,
    *,
    impl: str = "auto",
) -> Attended:
    """Attention that measures itself.

    query [B, H, Nq, D], key [B, Hk, Nk, D], value [B, Hk, Nk, Dv], any strides, float32, bfloat16 or float16 (float64
    is computed in float32 but by "reference"). Query head h reads key head h // (H // Hk). `score` says how a product
    becomes a weight, `request` what to measure (None: the defaults of MeasureRequest).

    impl: "reference" (dense float64), "tiled" (torch, any device), "triton" (GPU, or TRITON_INTERPRET=1), or "auto",
    which takes triton for tensors on a GPU it can drive and heads of up to 256, else tiled. Asking for one never
    silently gives another; `Attended.impl` says which one ran. There is no backward: no gradient flows through the
    result.

    Raises ValueError for shapes, types or names that do not fit, RuntimeError for triton without a device.
    """
    if impl not in IMPLEMENTATIONS:
        raise ValueError(f"impl: expected one of {', '.join(IMPLEMENTATIONS)}, got {impl!r}.")
    request = MeasureRequest() if request is None else request
    check_inputs(query, key, value, score, request)
    if impl == "auto":
        fits = max(query.shape[-1], value.shape[-1]) <= TRITON_FEATURES
        impl = "triton" if query.is_cuda and fits and why_no_triton(query) is None else "tiled"
    if impl == "reference":
        return attend_reference(query, key, value, score, request)
    if impl == "tiled":
        return attend_tiled(query, key, value, score, request)
    reason = why_no_triton(query)
    if reason is not None:
        raise RuntimeError(f'impl="triton": {reason} Ask for impl="tiled" or "auto".')
    from kernels.triton_attend import attend_triton

    return attend_triton(query, key, value, score, request)


def why_no_triton(query: Tensor) -> str | None:
    """Why the Triton kernels cannot run on this tensor, as a sentence; None where they can."""
    if importlib.util.find_spec("triton") is None:
        return "expected the package triton, which is not installed here (it exists for Linux)."
    if query.is_cuda:
        return None
    if os.environ.get("TRITON_INTERPRET") != "1":
        return (
            f"expected tensors on a GPU, or TRITON_INTERPRET=1 set before the start; got tensors on {query.device} "
            "and no interpreter."
        )
    if query.dtype == torch.bfloat16:
        return "expected float32 or float16 in Triton's interpreter, which multiplies bfloat16 wrongly; got bfloat16."
    return None

"""How the CPU loops are compiled: types, flags, the cache, and three operations that LLVM has and numba lacks.

Loops run over slices that start at 0: only then does LLVM see that no index is negative, and vectorises. Signatures are
given, so that each loop is compiled once and comes from the cache beside its file afterwards. A file's cache is renewed
when that file changes; so what a loop calls lives in its own file, except for what is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

# Sums may be reordered and multiplications fused; infinities and NaN keep their meaning.
SUMS = {"reassoc", "contract", "nsz", "arcp"}
LARGEST = SUMS | {"nnan"}  # a vectorised maximum must be allowed to ignore NaN
EXACT = {"contract", "nsz"}  # the exponential's steps must not be reordered

f32 = np.float32
LOWEST = f32(-np.inf)

SCORES = types.Array(types.float32, 3, "C")
LINE = types.Array(types.float32, 1, "C")
EDGES = types.Array(types.int64, 1, "C")
PER_ROW, WHERE = types.Array(types.float32, 2, "C"), types.Array(types.int64, 2, "C")  # [g, R]
FLOATS, WHOLES = types.Array(types.float32, 2, "A"), types.Array(types.int64, 2, "A")  # [g, Nq] of larger tensors
BLOCKS = types.Array(types.float32, 3, "A")


def jit(signature: Any, flags: set[str]) -> Callable:
    """Compile for one signature, outside the interpreter's lock; cached on disk where the disk can be written."""

    def decorate(function: Callable) -> Callable:
        options = {"nogil": True, "fastmath": flags, "error_model": "numpy"}
        try:
            return njit(signature, cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return njit(signature, **options)(function)

    return decorate


@intrinsic
def nearest(typing, x):
    """The nearest whole number."""

    def generate(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.rint", [ir.FloatType()])
        return builder.call(function, args)

    return types.float32(types.float32), generate


@intrinsic
def power_of_two(typing, n):
    """2**n of a whole number -126 .. 127, by writing the exponent's bits."""

    def generate(context, builder, signature, args):
        whole = ir.IntType(32)
        bits = builder.shl(builder.add(builder.fptosi(args[0], whole), whole(127)), whole(23))
        return builder.bitcast(bits, ir.FloatType())

    return types.float32(types.float32), generate


@intrinsic
def larger(typing, x, y):
    """The larger of two numbers, in a form that LLVM vectorises as a reduction."""

    def generate(context, builder, signature, args):
        kind = ir.FloatType()
        function = builder.module.declare_intrinsic("llvm.maxnum", [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(function, args, fastmath=("nnan", "nsz"))

    return types.float32(types.float32, types.float32), generate

"""The Triton kernels on a GPU: first whether they are right there, then what they cost against attention that measures
nothing.

    python -m benchmarks.gpu                  everything, within 8 minutes
    python -m benchmarks.gpu --check          only whether they are right
    python -m benchmarks.gpu --tokens 8192    another length for the table

Without a GPU it says so and ends with 0. Times are medians of CUDA events over repetitions in which every side runs in
turn; ratios are taken pair by pair. Outputs are compared in the same run. A failed comparison ends with 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import math
import os
import statistics
import sys
from collections.abc import Callable

os.environ.pop("TRITON_INTERPRET", None)  # decided when triton is first imported

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from kernels.measures import COUNTS, Attended, MeasureRequest
from kernels.reference import attend_reference
from kernels.score import ScoreSpec
from kernels.triton_attend import attend_triton
from kernels.triton_columns import column_pass
from kernels.triton_rows import row_pass
from kernels.triton_score import rule_of
from tests.kernels.triton_variants import VARIANTS, Variant

HEADS, KEY_HEADS, FEATURES = 32, 8, 128
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 1e-2}  # of the output, which is rounded to it
MEASURES = 1e-3  # of 16-bit inputs: products are exact in float32, the order of their sums is not
ON_THE_EDGE = ("max_key", "top_keys", "coverage", "negligible")
ROW_ONLY = MeasureRequest(keys=False, distances=False, pooled=None, sampled=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only whether the kernels are right")
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--repeats", type=int, default=7)
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print(
            "There is no GPU here: nothing was measured. Without one, tests/kernels/test_triton_*.py prove the kernels."
        )
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    right = check_variants() & check_twice_the_same()
    if not asked.check:
        right &= table(asked.tokens, asked.repeats)
        growth(asked.tokens)
    sys.exit(0 if right else 1)


def check_variants() -> bool:
    """Every interpreted variant in its own type, and in bfloat16, against float64 on the CPU."""
    print(f"\n{'variant':40} {'type':9} {'output':>9} {'worst measure':>14}  which")
    right = True
    for variant in VARIANTS:
        for dtype in {variant.dtype, torch.bfloat16} if variant.interpreted else ():
            right &= check_variant(dataclasses.replace(variant, dtype=dtype))
    return right


def check_variant(variant: Variant) -> bool:
    query, key, value, score, request = variant.build()
    expected = attend_reference(query, key, value, score, request)
    moved = {name: given.cuda() for name in ("groups", "tokens") if isinstance(given := getattr(request, name), Tensor)}
    on_device = dataclasses.replace(request, **moved)
    got = attend_triton(*(layout(variant, part) for part in (query, key, value)), score.to("cuda"), on_device)
    output = difference(got.output, expected.output)
    worst, name = max(
        ((difference(got.measures[n], m, n), n) for n, m in expected.measures.items()), default=(0.0, "-")
    )
    allowed = 1e-4 if variant.dtype == torch.float32 else MEASURES
    if score.scale > 1e3:  # float32 steps of a score of a million are 0.06: near ties are decided by rounding
        allowed = 0.1
    right = output <= max(TOLERANCE[variant.dtype], 10 * allowed * (score.scale > 1e3)) and worst <= allowed
    said = "" if right else "   WRONG"
    print(f"{variant.name:40} {str(variant.dtype)[6:]:9} {output:9.1e} {worst:14.1e}  {name}{said}")
    return right


def layout(variant: Variant, part: Tensor) -> Tensor:
    """On the GPU, lying as the variant wants it."""
    return part.cuda() if variant.layout is None else variant.layout(part.cuda())


def difference(got: Tensor, expected: Tensor, name: str = "output") -> float:
    """Largest difference, absolute below 1 and relative above. Of counts that hang on a threshold or on the order of
    weights: a tenth of the share that differs; of others inf where any does. inf where shapes or NaN differ."""
    got = got.cpu()
    if got.shape != expected.shape:
        return math.inf
    if name in COUNTS:
        differing = (got != expected).double().mean().item()
        return differing / 10 if name in ON_THE_EDGE else (math.inf if differing else 0.0)
    got, expected = got.double(), expected.double()
    if not torch.equal(got.isnan(), expected.isnan()):
        return math.inf
    apart = (got - expected).abs() / expected.abs().clamp(min=1.0)
    return apart.nan_to_num(0.0).max().item() if apart.numel() else 0.0


def check_twice_the_same() -> bool:
    """Two runs give the same bits."""
    query, key, value, score = inputs(2000)
    first, second = (attend_triton(query, key, value, score, MeasureRequest()) for _ in range(2))
    same = torch.equal(first.output, second.output) and torch.equal(first.lse, second.lse)
    same &= all(torch.equal(v.nan_to_num(-1), second.measures[n].nan_to_num(-1)) for n, v in first.measures.items())
    print(f"\ntwo runs give the same bits: {same}")
    return same


def inputs(tokens: int) -> tuple[Tensor, Tensor, Tensor, ScoreSpec]:
    torch.manual_seed(0)
    query = torch.randn(1, HEADS, tokens, FEATURES, device="cuda", dtype=torch.bfloat16)
    key, value = (torch.randn(1, KEY_HEADS, tokens, FEATURES, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return query, key, value, ScoreSpec(FEATURES**-0.5)


def table(tokens: int, repeats: int) -> bool:
    """Against torch's flash attention 2 and the public column sums. True where the outputs agree."""
    query, key, value, score = inputs(tokens)
    rule = rule_of(score, 1, tokens, tokens)
    every_key, every_value = (part.repeat_interleave(HEADS // KEY_HEADS, 1) for part in (key, value))

    def flash() -> Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return scaled_dot_product_attention(query, every_key, every_value, is_causal=True)

    def columns() -> Tensor:
        rows = row_pass(query, key, value[..., :1], score, rule, rows=False, tokens=None)  # log-sum-exp alone
        return column_pass(query, key, rule, rows.shift - torch.log2(rows.share))["received_sum"]

    def both() -> Attended:
        return attend_triton(query, key, value, score, MeasureRequest())

    ways: dict[str, Callable] = {
        "torch flash attention 2": flash,
        "pass 1, output only": lambda: row_pass(query, key, value, score, rule, rows=False, tokens=None),
        "pass 1, row measures": lambda: row_pass(query, key, value, score, rule, rows=True, tokens=None),
        "row measures with negligible": lambda: attend_triton(query, key, value, score, ROW_ONLY),
        "all default measures": both,
        "column sums alone": columns,
    } | public_columns(query, every_key)
    print(f"\n{HEADS} heads on {KEY_HEADS}, D = {FEATURES}, bfloat16, causal, {tokens:,} tokens")
    times = timed(ways, repeats)
    base = times["torch flash attention 2"]
    goals = {"pass 1, row measures": 1.25, "all default measures": 1.9}
    for name, measured in times.items():
        ratio = statistics.median(mine / theirs for mine, theirs in zip(measured, base, strict=True))
        goal = f"goal {goals[name]}" if name in goals else ""
        print(f"{name:34} {statistics.median(measured):9.2f} ms {ratio:6.2f} x flash attention 2  {goal}")
    apart = (both().output.float() - flash().float()).abs().max().item()
    print(f"largest difference of the outputs: {apart:.1e}")
    return apart <= TOLERANCE[torch.bfloat16]


def public_columns(query: Tensor, key: Tensor) -> dict[str, Callable]:
    """The public packages for column sums, where they are installed."""
    found = {}
    if importlib.util.find_spec("flash_colsum"):
        from flash_colsum import flash_colsum

        found["flash-colsum"] = lambda: flash_colsum(query, key, is_causal=True)
    if importlib.util.find_spec("flash_colreduce"):
        from flash_colreduce import flash_colreduce

        found["flash-colreduce"] = lambda: flash_colreduce(query, key, is_causal=True, reduction="sum")
    if not found:
        print("flash-colsum and flash-colreduce are not installed: column sums are timed without them.")
    return found


def timed(ways: dict[str, Callable], repeats: int) -> dict[str, list[float]]:
    """Milliseconds of each way, all ways in turn, after one run of each."""
    for way in ways.values():
        way()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            way()
            end.record()
            torch.cuda.synchronize()
            times[name].append(start.elapsed_time(end))
    return times


def growth(most: int) -> None:
    """Time and memory of one layer with all default measures from 1k tokens on, and the exponents they grow with."""
    print(f"\n{'tokens':>8} {'ms':>9} {'extra MB':>9}")
    points = []
    tokens = 1024
    while tokens <= most:
        query, key, value, score = inputs(tokens)
        ways = {"all": lambda q=query, k=key, v=value, s=score: attend_triton(q, k, v, s, MeasureRequest())}
        milliseconds = statistics.median(timed(ways, 5)["all"])
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        ways["all"]()
        extra = (torch.cuda.max_memory_allocated() - before) / 2**20
        print(f"{tokens:8,} {milliseconds:9.2f} {extra:9.0f}")
        points.append((math.log(tokens), math.log(milliseconds), math.log(extra)))
        tokens *= 2
    if len(points) > 2:
        (x, time, memory), (x_end, time_end, memory_end) = points[-3], points[-1]
        print(
            f"from the last three lengths: time grows with tokens^{(time_end - time) / (x_end - x):.2f}, "
            f"memory with tokens^{(memory_end - memory) / (x_end - x):.2f}"
        )


if __name__ == "__main__":
    main()

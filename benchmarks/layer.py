"""One attention layer on the CPU: attention that measures itself against torch's own, which measures nothing.

    python -m benchmarks.layer                          2,048 and 8,192 tokens
    python -m benchmarks.layer --tokens 2048 --repeats 9

9 query heads on 3 key heads, head size 64, float32, causal: a layer of SmolLM2. Every repetition runs all ways one
after the other, so that a busy machine slows them alike; ratios are taken pair by pair. Beside the clock stands the
processor time, which other programs disturb less. Outputs are compared in the same run. Memory is the peak of a fresh
process per way above what it held before the call. The last table is a 256 x 256 picture of a 4,096 x 4,096 window.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import kernels.tiled
from kernels.api import attend
from kernels.measures import NOTHING, MeasureRequest
from kernels.score import ScoreSpec
from kernels.sweep_torch import TorchSweep
from kernels.window import pooled

HEADS, KEY_HEADS, FEATURES = 9, 3, 64
SCORE = ScoreSpec(FEATURES**-0.5)
ROWS_ONLY = MeasureRequest(keys=False, distances=False, pooled=None, sampled=0)
DENSE_LIMIT = 4096  # eager attention holds every weight at once


def inputs(n_tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return tuple(torch.randn(1, heads, n_tokens, FEATURES) for heads in (HEADS, KEY_HEADS, KEY_HEADS))


def sdpa(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def eager(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """All weights at once, as output_attentions needs them."""
    key, value = (part.repeat_interleave(HEADS // KEY_HEADS, 1) for part in (key, value))
    scores = query @ key.mT * SCORE.scale
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ value


def plain_strips(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Every default measure, strip by strip, in tensor operations: what runs where numba is missing."""
    chosen, kernels.tiled.choose_sweep = kernels.tiled.choose_sweep, lambda device: TorchSweep
    try:
        return attend(query, key, value, SCORE, MeasureRequest(), impl="tiled").output
    finally:
        kernels.tiled.choose_sweep = chosen


def measured(request: MeasureRequest) -> Callable[..., Tensor]:
    return lambda *tensors: attend(*tensors, SCORE, request, impl="tiled").output


def with_tokens(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    tokens = torch.arange(key.shape[2])[None] % 499
    return attend(query, key, value, SCORE, MeasureRequest(tokens=tokens, top=8), impl="tiled").output


WAYS: dict[str, Callable[..., Tensor]] = {
    "torch sdpa": sdpa,
    "no measure": measured(NOTHING),
    "row measures only": measured(ROWS_ONLY),
    "rows and keys": measured(MeasureRequest(distances=False, pooled=None, sampled=0)),
    "rows, keys, distances": measured(MeasureRequest(pooled=None, sampled=0)),
    "rows, keys, distances, pooled map": measured(MeasureRequest(sampled=0)),
    "all default measures": measured(MeasureRequest()),
    "all, tokens, 8 strongest keys": with_tokens,
    "all, strips of tensor operations": plain_strips,
    "eager, all weights kept": eager,
}


def ways_for(n_tokens: int) -> dict[str, Callable[..., Tensor]]:
    return {name: way for name, way in WAYS.items() if n_tokens <= DENSE_LIMIT or way is not eager}


def time_layer(n_tokens: int, repeats: int) -> None:
    tensors, ways = inputs(n_tokens), ways_for(n_tokens)
    clock: dict[str, list[float]] = {name: [] for name in ways}
    processor: dict[str, list[float]] = {name: [] for name in ways}
    expected = sdpa(*tensors)
    apart = {name: float((way(*tensors) - expected).abs().max()) for name, way in ways.items()}  # and warms up
    for _ in range(repeats):
        for name, way in ways.items():
            start, used = time.perf_counter(), time.process_time()
            way(*tensors)
            clock[name].append(time.perf_counter() - start)
            processor[name].append(time.process_time() - used)
    print(f"\n{n_tokens:,} tokens, median of {repeats}; {torch.get_num_threads()} threads")
    print(f"{'':36}{'ms':>9}{'x sdpa':>9}{'cpu ms':>9}{'x sdpa':>9}{'extra MB':>10}{'output apart':>14}")
    for name in ways:
        wall, cpu = (statistics.median(times[name]) * 1e3 for times in (clock, processor))
        ratios = [
            statistics.median(a / b for a, b in zip(times[name], times["torch sdpa"], strict=True))
            for times in (clock, processor)
        ]
        memory = extra_memory(name, n_tokens)
        print(f"{name:36}{wall:9.1f}{ratios[0]:9.2f}{cpu:9.1f}{ratios[1]:9.2f}{memory:10.1f}{apart[name]:14.1e}")
    if n_tokens > DENSE_LIMIT:
        print(f"{'eager, all weights kept':36}  calculated: {HEADS * n_tokens**2 * 4 / 1e6:,.0f} MB of weights alone")


def time_picture(repeats: int) -> None:
    """A picture of a window of one head of a longer map."""
    query, key, value = inputs(8192)
    query, key, value = query[:, :1], key[:, :1], value[:, :1]
    lse = attend(query, key, value, SCORE, NOTHING).lse
    print(f"\n256 x 256 picture of a 4,096 x 4,096 window, exact, one head, median of {repeats}")
    for label, rows in (("all cells visible", slice(4096, 8192)), ("half of the cells visible", slice(0, 4096))):
        for how in ("mean", "max"):
            times, used = [], []
            for _ in range(repeats + 1):
                start, cpu = time.perf_counter(), time.process_time()
                pooled(query, key, SCORE, lse, rows, slice(0, 4096), 256, how)
                times.append(time.perf_counter() - start)
                used.append(time.process_time() - cpu)
            wall, cpu = (statistics.median(values[1:]) * 1e3 for values in (times, used))
            print(f"{label + ', ' + how:36}{wall:9.1f} ms   cpu {cpu:6.1f} ms")


# -- memory, each way in a process of its own -------------------------------------------------------------------------


def extra_memory(name: str, n_tokens: int) -> float:
    """Peak of the call above what the process held before it, in MB; nan where the system does not tell."""
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    command = [sys.executable, "-m", "benchmarks.layer", "--memory", name, "--tokens", str(n_tokens)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_memory(name: str, n_tokens: int) -> None:
    WAYS[name](*inputs(64))
    tensors = inputs(n_tokens)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = status_mb("VmRSS")
    result = WAYS[name](*tensors)
    print(status_mb("VmHWM") - before - result.nbytes / 1e6)


def status_mb(field: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        return print_memory(options.memory, options.tokens[0])
    start = time.perf_counter()
    measured(MeasureRequest())(*inputs(64))
    print(f"First call, loops compiled or read from the cache: {time.perf_counter() - start:.1f} s")
    for n_tokens in options.tokens:
        time_layer(n_tokens, options.repeats)
    return time_picture(options.repeats)


if __name__ == "__main__":
    main()

"""Registers, shared memory and spills of the Triton kernels, compiled to machine code without a GPU.

    python -m benchmarks.compile_report                      a bfloat16 model of today on three architectures
    python -m benchmarks.compile_report --all                every variant of tests/kernels/triton_variants.py (long)
    python -m benchmarks.compile_report --json --targets sm_80 --variants "length 65"

Nothing is run: a stand-in for the driver names the architecture, and every launch of `attend_triton` becomes a
compilation, with the arguments, specialisations and block sizes that a real launch would have.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.pop("TRITON_INTERPRET", None)  # decided when triton is first imported

import torch
import triton
from triton.backends import nvidia
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from kernels.triton_attend import attend_triton
from tests.kernels.triton_variants import VARIANTS, Variant

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
BY_DEFAULT = ("long, bfloat16, 64", "long, bfloat16, 128", "long, tokens")


@dataclass(frozen=True)
class Compiled:
    target: str
    kernel: str
    variant: str
    blocks: str
    registers: int
    shared: int  # bytes per program
    spilled: int  # bytes of registers kept in memory, per thread


class NamedDevice:
    """What Triton asks of a driver before it compiles."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


@contextmanager
def compiling(target: GPUTarget) -> Iterator[list]:
    """Inside, launches compile for `target` and run nothing; gives the list that (kernel, options) are added to."""
    compiled, seen, launched = [], set(), JITFunction.__getitem__

    def compile_only(function: JITFunction, grid: tuple[int, ...]):
        def call(*arguments, **options):
            if function not in seen:
                seen.add(function)
                function.device_caches.clear()  # what another target compiled
            compiled.append((function.warmup(*arguments, grid=grid, **options), options))

        return call

    driver.set_active(NamedDevice(target))
    JITFunction.__getitem__ = compile_only
    try:
        yield compiled
    finally:
        JITFunction.__getitem__ = launched


def compile_variant(name: str, variant: Variant) -> list[Compiled]:
    """Every kernel that this variant launches on this target, once."""
    with compiling(TARGETS[name]) as compiled:
        attend_triton(*variant.build())
    rows = {}
    for kernel, options in compiled:
        sizes = " x ".join(str(options[size]) for size in ("SIDE", "ROWS", "KEYS") if size in options)
        blocks = f"{sizes}, {options['num_warps']} warps, {options['num_stages']} stages"
        registers, spilled = resources(kernel)
        row = Compiled(name, kernel.metadata.name, variant.name, blocks, registers, kernel.metadata.shared, spilled)
        rows[kernel.metadata.hash] = row
    return list(rows.values())


def resources(kernel) -> tuple[int, int]:
    """Registers and spilled bytes per thread: NVIDIA's from cuobjdump on the machine code, AMD's from its metadata."""
    if "amdgcn" in kernel.asm:
        text = kernel.asm["amdgcn"]
        count = {name: int(re.search(rf"\.{name}:\s+(\d+)", text)[1]) for name in ("vgpr_count", "vgpr_spill_count")}
        return count["vgpr_count"], 4 * count["vgpr_spill_count"]
    tool = Path(nvidia.__file__).parent / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        shown = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)
    usage = re.search(r"REG:(\d+) STACK:(\d+)", shown.stdout + shown.stderr)
    return int(usage[1]), int(usage[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--variants", nargs="+", metavar="NAME", default=list(BY_DEFAULT))
    parser.add_argument("--all", action="store_true", help="every variant")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    asked = parser.parse_args()
    variants = [v for v in VARIANTS if asked.all or v.name in asked.variants]
    missing = set(asked.variants) - {v.name for v in VARIANTS}
    if missing:
        sys.exit(
            f"No variant is named {', '.join(sorted(missing))}. The names are in tests/kernels/triton_variants.py."
        )
    if not asked.json:
        print(f"triton {triton.__version__}")
        print(f"{'target':8} {'kernel':18} {'variant':34} {'blocks':34} registers shared spilled")
    for name in asked.targets:
        for variant in variants:
            for row in compile_variant(name, variant):
                if asked.json:
                    print(json.dumps(asdict(row)), flush=True)
                else:
                    print(
                        f"{row.target:8} {row.kernel:18} {row.variant:34} {row.blocks:34} "
                        f"{row.registers:9} {row.shared:6} {row.spilled:7}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()

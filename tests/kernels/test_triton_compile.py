"""The Triton kernels compile to machine code for three architectures, in a process that does not interpret them."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.kernels.triton_variants import VARIANTS

SHARED = {"sm_80": 101_376, "sm_90": 232_448, "gfx942": 65_536}  # bytes a program may use (sm_80: of consumer cards)
KNOWN_SPILL = 40  # bytes outside the default request, in half precision: docs/performance.md names the kernels


def compiled(targets, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "benchmarks.compile_report", "--json", "--targets", *targets, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_fits(rows):
    for row in rows:
        assert row["shared"] <= SHARED[row["target"]], f"too much shared memory: {row}"
        assert 0 < row["registers"] <= 512, row


@pytest.mark.parametrize("target", list(SHARED))
def test_the_default_request_spills_nothing(target):
    rows = compiled([target], "--variants", "long, bfloat16, 128")
    assert {row["kernel"] for row in rows} == {"rows_kernel", "pairs_kernel", "keys_kernel", "whole_rows_kernel"}
    assert_fits(rows)
    assert [row for row in rows if row["spilled"]] == []


def test_a_variant_with_every_measure_compiles():
    rows = compiled(["sm_90"], "--variants", "window and first keys")
    assert "moments_kernel" in {row["kernel"] for row in rows}
    assert_fits(rows)


@pytest.mark.long
@pytest.mark.parametrize("target", list(SHARED))
def test_the_whole_table_compiles(target):
    rows = compiled([target], "--all")
    assert_fits(rows)
    assert {row["variant"] for row in rows} == {variant.name for variant in VARIANTS}
    half = [row for row in rows if row["variant"].startswith(("long, bfloat16", "long, float16"))]
    assert [row for row in half if row["spilled"] > KNOWN_SPILL] == []

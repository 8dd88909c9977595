"""A machine without a GPU imports everything, and says what it can do (case 85)."""

import os
import subprocess
import sys

from tests.test_architecture import ROOT, SOURCES, relative

RUN = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
import torch
from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec
tensor = torch.randn(1, 2, 5, 8)
assert attend(tensor, tensor, tensor, ScoreSpec(scale=0.3), MeasureRequest()).impl == "tiled"
try:
    attend(tensor, tensor, tensor, ScoreSpec(scale=0.3), MeasureRequest(), impl="triton")
except (RuntimeError, ValueError) as error:
    print("refused:", error)
"""


def test_case_85_every_module_imports_without_a_gpu_and_triton_is_refused_in_words():
    modules = [relative(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in SOURCES]
    modules = [module for module in modules if module.startswith(("kernels.", "backend", "pages.shared"))]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ran = subprocess.run(
        [sys.executable, "-c", RUN, *modules],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "refused:" in ran.stdout
    assert "TRITON_INTERPRET" in ran.stdout or "GPU" in ran.stdout

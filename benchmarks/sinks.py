"""How long the sink percentage takes beside plain forward passes, and what of it is the same as eager attention.

    python -m benchmarks.sinks

Both sides in one run: 32 natural texts of 64 tokens through the model alone, one by one, and the study with its tables.
"""

from __future__ import annotations

import os
import time

import torch

from backend.models import LoadedModel, load
from backend.studies import run_study
from backend.studies.sink_percentage import STUDY, Parameters, texts_of

MODEL = "smollm2-135m-instruct"
GOAL = 12.0  # seconds, on 2 cores


def plain_seconds(model: LoadedModel, texts: list[list[int]]) -> float:
    """The texts one by one, nothing captured."""
    start = time.perf_counter()
    with torch.inference_mode():
        for ids in texts:
            model.model(input_ids=torch.tensor([ids]), use_cache=False)
    return time.perf_counter() - start


def main() -> None:
    """Prints the table."""
    model, parameters = load(MODEL), Parameters(sets=("natural",), samples=32)
    texts = texts_of(model, parameters, "natural", list(range(32)))
    plain_seconds(model, texts[:2])
    run_study(STUDY, model, Parameters(sets=("random",), samples=8, seed=1))
    plain = plain_seconds(model, texts)
    start = time.perf_counter()
    study = run_study(STUDY, model, parameters)
    seconds = time.perf_counter() - start
    found = study.table("summary").to_pylist()[0]
    print(f"{MODEL}, 32 texts of 64 tokens, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    print(f"  plain forward passes, one by one   {plain:6.2f} s")
    print(f"  sink percentage, stored            {seconds:6.2f} s   (goal {GOAL:.0f} s)")
    print(f"  sink percentage {found['percent']:.1f} % ({found['low']:.1f} to {found['high']:.1f})")


if __name__ == "__main__":
    main()

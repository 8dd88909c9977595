"""What it costs to watch: capture of a whole model against the plain forward pass and against eager attention maps.

    python -m benchmarks.capture                       1,024 and 2,048 tokens
    python -m benchmarks.capture --tokens 512 --profile

Every repetition runs all ways one after the other, so that a busy machine slows them alike; ratios are taken pair by
pair and their median is printed. The logits are compared in the same run. Peak memory is that of a fresh process per
way, from after the model is loaded, above the plain forward's.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import cProfile
import io
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from backend.capture import capture
from backend.models import load
from backend.pipeline import Options, analyse
from backend.store import Library
from kernels.measures import MeasureRequest

MODEL = "smollm2-135m-instruct"
LABELS = {
    "plain": "plain forward (sdpa)",
    "captured": "capture, MeasureRequest()",
    "eager": "eager, output_attentions",
    "stored": "analyse: captured and stored",
}
TEXT = (
    "The river rose in the night and by morning the lower field was a lake. Anna counted the sheep on the ridge, "
    "found one missing, and set out with the dog along the old wall, where the water had not yet come. "
)


def prompt_ids(model, n_tokens: int) -> list[int]:
    """The first n_tokens of a text that goes on as long as it takes."""
    once = model.tokenizer(TEXT, add_special_tokens=False).input_ids
    return (once * (n_tokens // len(once) + 1))[:n_tokens]


# -- the ways ---------------------------------------------------------------------------------------------------------


def plain(model, ids):
    with torch.inference_mode():
        return model.model(input_ids=torch.tensor([ids]), use_cache=False).logits


def captured(model, ids):
    layers = []
    with (
        torch.inference_mode(),
        capture(model, MeasureRequest(), on_layer=lambda layer: layers.append(layer.info.layer)),
    ):
        logits = model.model(input_ids=torch.tensor([ids]), use_cache=False).logits
    assert len(layers) == len(model.describe().layers)
    return logits


def eager(model, ids):
    with torch.inference_mode():
        answer = model(input_ids=torch.tensor([ids]), use_cache=False, output_attentions=True)
    assert answer.attentions[0].shape[-1] == len(ids)
    return answer.logits


def stored(model, ids):
    """The whole of analyse(): captured, statistics, tokens, written, published."""
    with tempfile.TemporaryDirectory() as folder:
        analyse(model, ids, library=Library(folder))


def eager_copy(model):
    twin = copy.deepcopy(model.model)
    twin.set_attn_implementation("eager")
    return twin


# -- time -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Took:
    """What one way took: by the clock, and of the processor's time (which a busy machine disturbs less)."""

    seconds: float
    processor: float


def timed(way, model, ids):
    start, used = time.perf_counter(), time.process_time()
    result = way(model, ids)
    return Took(time.perf_counter() - start, time.process_time() - used), result


def compare_times(model, n_tokens: int, repeats: int) -> None:
    ids, twin = prompt_ids(model, n_tokens), eager_copy(model)
    for way, of in ((plain, model), (captured, model), (eager, twin)):
        way(of, ids)  # the first pass of each is warm-up
    took: dict[str, list[Took]] = {name: [] for name in LABELS}
    apart = {"captured": 0.0, "eager": 0.0}
    for _ in range(repeats):
        time_plain, logits = timed(plain, model, ids)
        took["plain"].append(time_plain)
        for name, way, of in (("captured", captured, model), ("eager", eager, twin)):
            time_other, others = timed(way, of, ids)
            took[name].append(time_other)
            apart[name] = max(apart[name], float((others - logits).abs().max()))
            del others
        del logits
        took["stored"].append(timed(stored, model, ids)[0])
    print(f"\n{n_tokens:,} tokens, {repeats} repetitions, {torch.get_num_threads()} threads")
    print(f"{'':32}{'seconds':>10}{'ratio':>10}{'of CPU time':>13}{'logits apart':>16}")
    for name, times in took.items():
        pairs = list(zip(times, took["plain"], strict=True))
        clock = statistics.median(a.seconds / b.seconds for a, b in pairs)
        processor = statistics.median(a.processor / b.processor for a, b in pairs)
        difference = f"{apart[name]:.1e}" if name in apart else ""
        median = statistics.median(a.seconds for a in times)
        print(f"{LABELS[name]:32}{median:10.2f}{clock:9.2f}x{processor:12.2f}x{difference:>16}")


# -- memory -----------------------------------------------------------------------------------------------------------


def peak_of_this_process(way_name: str, n_tokens: int) -> None:
    """Runs one way and prints the peak resident memory since the model was loaded, in MB (Linux)."""
    model = load(MODEL)
    ids, way = (
        prompt_ids(model, n_tokens),
        {"plain": plain, "captured": captured, "eager": eager, "stored": stored}[way_name],
    )
    of = model
    if way_name == "eager":
        model.model.set_attn_implementation("eager")
        of = model.model
    way(of, ids[:16])
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    way(of, ids)
    status = Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) / 1000)


def peak(way_name: str, n_tokens: int) -> float:
    command = [sys.executable, "-m", "benchmarks.capture", "--peak-of", way_name, "--tokens", str(n_tokens)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def compare_memory(n_tokens: int) -> None:
    peaks = {name: peak(name, n_tokens) for name in LABELS}
    print(f"\npeak memory above the plain forward at {n_tokens:,} tokens ({peaks['plain']:,.0f} MB in all)")
    for name in ("captured", "eager", "stored"):
        print(f"{LABELS[name]:32}{peaks[name] - peaks['plain']:10,.0f} MB")


# -- profile ----------------------------------------------------------------------------------------------------------


def print_profile(model, n_tokens: int) -> None:
    """Where the time of analyse() goes, by function."""
    ids = prompt_ids(model, n_tokens)
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as folder:
        library = Library(folder)
        profile.enable()
        analysis = analyse(model, ids, library=library, options=Options())
        profile.disable()
        print(f"\ntimings: {analysis.info['timings']}")
    for order in ("cumulative", "tottime"):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            pstats.Stats(profile, stream=text).strip_dirs().sort_stats(order).print_stats(25)
        print(text.getvalue())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tokens", type=int, nargs="+", default=[1024, 2048])
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--profile", action="store_true", help="print where the time of analyse() goes")
    arguments.add_argument("--peak-of", choices=list(LABELS), help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.peak_of:
        peak_of_this_process(chosen.peak_of, chosen.tokens[0])
        return
    model = load(MODEL)
    for n_tokens in chosen.tokens:
        if chosen.profile:
            print_profile(model, n_tokens)
        else:
            compare_times(model, n_tokens, chosen.repeats)
            compare_memory(n_tokens)


if __name__ == "__main__":
    main()

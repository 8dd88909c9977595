"""Sparsity on SmolLM2: the pattern table of all heads, all policies at one budget, real runs against plain ones, keys.

    python -m benchmarks.sparsity                 1,024 tokens
    python -m benchmarks.sparsity --tokens 512

Every figure is the clock beside the processor time of this process, which other programs disturb less. A real run of a
policy reads the judged tokens with the shortened cache, one of a pattern the whole text under masks; the plain forward
pass beside both is transformers' own (sdpa, nothing measured) over the whole text. The dense pass that a study makes
once for all its runs is given apart, and so is the making of masks.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from backend import policies
from backend.models import load
from backend.pipeline import Options, analyse
from backend.prompts import encode
from backend.sparsity.head_masks import CHOICES, HeadMasks
from backend.sparsity.head_table import layer_rows
from backend.sparsity.real_run import Prepared
from backend.sparsity.simulate import Simulation
from backend.sparsity.stored_layers import context_length, stored_layers
from backend.store import Library
from backend.studies import key_dimensions, run_study
from pages.shared.examples import CODE, DOCUMENTS, NAMES, STORY

TEXT = "\n\n".join([STORY, NAMES, CODE, *DOCUMENTS])


def timed(work: Callable) -> tuple[object, float, float]:
    """Result, clock, processor time."""
    start, used = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - start, time.process_time() - used


def say(what: str, clock: float, used: float, more: str = "") -> None:
    print(f"| {what} | {clock:.2f} | {used:.2f} | {more} |", flush=True)


def plain(model, token_ids: list[int]) -> None:
    """transformers' own forward pass."""
    model.model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        model.model(torch.tensor([token_ids]), use_cache=False)


class Ready(list):
    """Masks that were made before."""

    def __call__(self, place: int) -> Tensor:
        return self[place]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    model = load("smollm2-135m-instruct")
    token_ids = (encode(model, TEXT).token_ids * 8)[: options.tokens]
    n = context_length(len(token_ids))
    threads, load_now = torch.get_num_threads(), os.getloadavg()[0]
    print(f"{len(token_ids):,} tokens, {n:,} in the cache, {threads} threads, load {load_now:.1f}")
    print("| what | clock s | processor s | |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        analysis = analyse(model, token_ids, options=Options(exact_maps="all"), library=Library(Path(folder)))
        rows, *cost = timed(lambda: [r for one in analysis.layers() for r in layer_rows(analysis, "self", one.layer)])
        say("pattern table of all heads", *cost, f"{len(rows)} heads, from the stored analysis")
        layers = stored_layers(analysis, "self")
        names = [name for name, policy in policies.all().items() if not policy.needs_rotary]
        made, *cost = timed(lambda: Simulation.of(layers, names))
        say("scores of all policies", *cost, f"{len(names)} policies, from the stored analysis")
        _, *cost = timed(lambda: made.outcomes(0.25))
        say("all policies at one budget", *cost, "25 % kept, what is retained")
    plain(model, token_ids)
    full = [timed(lambda: plain(model, token_ids))[1:] for _ in range(options.repeats)]
    clock, used = (statistics.median(values) for values in zip(*full, strict=True))
    say("plain forward pass", clock, used, "sdpa")
    text, *cost = timed(lambda: Prepared(model, token_ids, n, 0, lambda: None))
    say("dense pass of a study", *cost, "once for all runs")
    made, *cost = timed(lambda: Simulation.of(text.layers(), policies.all()))
    say("scores of all policies", *cost, f"{len(made.scored)} policies, from the run")
    for outcome in made.outcomes(0.25):
        kept = {one.layer: one.kept for one in outcome.layers}
        damage, *cost = timed(lambda kept=kept: text.evicted(model, kept))
        more = f"{cost[0] / clock:.2f} x plain (clock), {cost[1] / used:.2f} x (processor), KL {damage.kl.mean():.4f}"
        say(f"real run: {outcome.policy}", *cost, more)
    for family in CHOICES:
        masks = HeadMasks(text, family, 0.25)
        ready, *cost = timed(lambda masks=masks: Ready(masks(place) for place in range(len(text.parts))))
        say(f"masks of all heads: {family}", *cost, "25 % of the pairs")
        damage, *cost = timed(lambda ready=ready: text.masked(model, ready))
        more = f"{cost[0] / clock:.2f} x plain (clock), {cost[1] / used:.2f} x (processor), KL {damage.kl.mean():.4f}"
        say(f"real run: {family} patterns", *cost, more)
    keys = key_dimensions.Parameters(token_ids=tuple(token_ids))
    needed = key_dimensions.STUDY.plan(model, keys)
    _, *cost = timed(lambda: run_study(key_dimensions.STUDY, model, keys))
    say("study of key dimensions", *cost, f"said before: {needed.seconds:.1f} s")


if __name__ == "__main__":
    main()

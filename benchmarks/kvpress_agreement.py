"""Headwater's policies beside NVIDIA's kvpress: the same model, text, queries, keys and values, two programs.

    python -m benchmarks.kvpress_agreement                         builds kvpress' environment where it is missing
    python -m benchmarks.kvpress_agreement --environment FOLDER    another place for it (several GB)

kvpress wants an older transformers, so it gets an environment of its own, and everything goes through files. Printed
for every policy both have: Spearman's rank correlation of the scores (mean over layers and key heads, forced keys as
ties at the top) and the overlap of the kept keys (shared over either) at a quarter kept. Beside them the largest
difference of a key, so that it is seen that both looked at the same thing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

from backend import policies
from backend.models import load
from backend.prompts import encode
from backend.sparsity.real_run import Prepared
from backend.sparsity.simulate import Simulation
from pages.shared.examples import CODE, DOCUMENTS, NAMES, STORY

PACKAGE = "kvpress==0.5.5"
WORKER = Path(__file__).with_name("_kvpress_scores.py")
TEXT = "\n\n".join([STORY, NAMES, CODE, *DOCUMENTS])
SHARE = 0.25
KEPT_ONLY = ("adakv", "pyramidkv")  # one ranking is shared with SnapKV; what differs is how keys are spent


def environment(folder: Path) -> Path | None:
    """The Python of kvpress' environment; builds it. None where that is not possible here, with the reason printed."""
    python = folder / "bin" / "python"
    if python.exists() and run([python, "-c", "import kvpress"]).returncode == 0:
        return python
    print(f"building {PACKAGE} in {folder} ...", flush=True)
    venv.create(folder, with_pip=True)
    done = run([python, "-m", "pip", "install", "--quiet", PACKAGE])
    if done.returncode == 0:
        return python
    print(f"kvpress could not be installed here, so nothing was compared: {done.stderr.strip()[-600:]}")
    return None


def run(command: list) -> subprocess.CompletedProcess:
    """The finished process with what it said; the caller looks at its exit status."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def theirs(python: Path, model, token_ids: list[int]) -> dict[str, np.ndarray]:
    """Scores and kept keys of every press, [layers, Hk, n]."""
    with tempfile.TemporaryDirectory() as folder:
        model.model.save_pretrained(folder)
        results = Path(folder) / "scores.npz"
        command = [python, WORKER, folder, json.dumps(token_ids), results, str(SHARE)]
        done = run(command)
        if done.returncode:
            sys.exit(f"kvpress failed:\n{done.stderr[-3000:]}")
        return dict(np.load(results))


def ours(model, token_ids: list[int]) -> tuple[dict[str, np.ndarray], str]:
    """The same from Headwater. One more token is read behind the text, because a policy needs a row that judges."""
    text = Prepared(model, [*token_ids, token_ids[0]], len(token_ids), 0, lambda: None)
    names = [name for name, policy in policies.all().items() if not policy.looks_ahead]
    made = Simulation.of(text.layers(), names)
    found = {"keys": np.stack([part.key[:, : len(token_ids)].numpy() for part in text.parts])}
    for name, scored in made.scored.items():
        found[f"scores_{name}"] = np.stack([one.values.numpy() for one in scored])
        found[f"kept_{name}"] = np.stack([kept.numpy() for kept in made.kept(name, SHARE)])
    return found, " ".join(made.refused.values())


def ranks(values: np.ndarray) -> np.ndarray:
    """Mean ranks, ties shared."""
    finite = np.where(np.isinf(values), values[np.isfinite(values)].max() + 1, values)
    _, inverse, counts = np.unique(finite, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's, mean over layers and key heads."""
    pairs = [
        np.corrcoef(ranks(a), ranks(b))[0, 1]
        for a, b in zip(one.reshape(-1, one.shape[-1]), other.reshape(-1, other.shape[-1]), strict=True)
    ]
    return float(np.mean(pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir()) / "headwater-kvpress")
    parser.add_argument("--tokens", type=int, default=512)  # from here on SnapKV looks at its 64 rows
    options = parser.parse_args()
    python = environment(options.environment)
    if python is None:
        return
    model = load("smollm2-135m-instruct")
    token_ids = (encode(model, TEXT).token_ids * 4)[: options.tokens]
    print(f"SmolLM2-135M-Instruct, {len(token_ids)} tokens, {SHARE:.0%} kept, {PACKAGE}")
    mine, refused = ours(model, token_ids)
    other = theirs(python, model, token_ids)
    print(f"largest difference of a key: {np.abs(mine['keys'] - other['keys']).max():.1e}\n")
    print("| policy | rank correlation of scores | overlap of kept keys | kept here | kept there |")
    print("|---|---|---|---|---|")
    for name in sorted(policies.all()):
        if f"kept_{name}" not in other or f"kept_{name}" not in mine:
            continue
        here, there = mine[f"kept_{name}"], other[f"kept_{name}"]
        same = (here & there).sum() / (here | there).sum()
        known = name not in KEPT_ONLY and name != "streaming_llm"  # whose scores there are ones and zeros
        rank = f"{correlation(mine[f'scores_{name}'], other[f'scores_{name}']):.4f}" if known else "-"
        print(f"| {policies.all()[name].title} | {rank} | {same:.4f} | {here.mean():.3f} | {there.mean():.3f} |")
    if refused:
        print(refused)


if __name__ == "__main__":
    main()

"""What the store costs and survives: saving, listing, kills, many processes at once.

    python -m benchmarks.store                        everything (about five minutes)
    python -m benchmarks.store --only save list       parts of it: save, list, kills, crowd
    python -m benchmarks.store --kills 20 --seconds 5

Queries and keys are random but have the shape of SmolLM2-135M: 30 layers, 9 heads, 3 key heads, 64 features.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from backend.store import AnalysisWriter, Library, files, ids, sidecar
from backend.store.check import check_file
from backend.types import LayerInfo, LayerRecord, RunRecord, Token
from kernels.api import attend
from kernels.measures import MeasureRequest
from kernels.score import ScoreSpec

LAYERS, HEADS, KEY_HEADS, FEATURES = 30, 9, 3, 64
TOKENS = 2048
ENTRIES = 10_000
SEEDS = 5
FIXED = "replaced"


def record(
    layer: int, n: int, seed: int, heads: int = HEADS, dtype: torch.dtype = torch.float32, impl: str = "tiled"
) -> LayerRecord:
    """One layer of random attention; the same for the same seed."""
    generator, key_heads = torch.Generator().manual_seed(1000 * seed + layer), KEY_HEADS

    def vectors(count: int) -> torch.Tensor:
        return torch.randn(1, count, n, FEATURES, generator=generator).to(dtype)

    query, key, value = vectors(heads), vectors(key_heads), vectors(key_heads)
    score = ScoreSpec(scale=FEATURES**-0.5)
    request = MeasureRequest(tokens=torch.arange(n)[None] % 50)
    found = attend(query, key, value, score, request, impl=impl)
    norms = key[0].float().norm(dim=-1).repeat_interleave(heads // key_heads, 0)
    return LayerRecord(
        info=LayerInfo("self", layer, f"layers.{layer}", "softmax", heads, key_heads, FEATURES, FEATURES),
        score=score,
        query=query[0],
        key=key[0],
        lse=found.lse[0],
        measures={name: t if name == "sampled_rows" else t[0] for name, t in found.measures.items()},
        statistics={name: np.random.default_rng(seed).random(heads) for name in ("entropy", "first_mass")},
        key_norm=norms,
        value_norm=torch.rand(heads, n),
        output_norm=torch.rand(heads, n),
        hidden_norm=torch.rand(n),
        hidden_max=torch.rand(n),
        exact=tuple(range(heads)),
    )


def run_of(n: int, seed: int) -> RunRecord:
    tokens = [Token(i, i, f" {i}", f" {i}", f" {i}", b"x", 2 * i, 2 * i + 2, False, -1, i) for i in range(n)]
    return RunRecord(tokens, [], [], {"model": "random", "prompt": {"text": f"seed {seed}"}, "seed": seed})


# -- save -------------------------------------------------------------------------------------------------------------


def save() -> None:
    """Time from the end of the last layer to the published file, and its size."""
    records = [record(layer, TOKENS, 0) for layer in range(LAYERS)]
    codec = LAYERS * TOKENS * ((HEADS + KEY_HEADS) * (2 * FEATURES + 4) + 4 * HEADS)
    layer_seconds, last, publish, opened = [], [], [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            library = Library(folder)
            with AnalysisWriter(library) as writer:
                for item in records:
                    start = time.perf_counter()
                    writer.layer(item)
                    layer_seconds.append(time.perf_counter() - start)
                done = time.perf_counter()
                id = writer.publish(run_of(TOKENS, 0))
                publish.append(time.perf_counter() - done)
                last.append(layer_seconds[-1] + publish[-1])
            size = library.entry(id).bytes
            start = time.perf_counter()
            Library(folder).open(id).map(3, 4, slice(1000, 1256), slice(500, 756))
            opened.append(time.perf_counter() - start)
    print(f"save, {TOKENS} tokens, {LAYERS} x {HEADS} exact maps (medians of 5)")
    print(f"  a layer written while the model runs   {statistics.median(layer_seconds):7.3f} s")
    print(f"  last layer handed over -> published    {statistics.median(last):7.3f} s   (at most 1.5)")
    print(f"  of which publish                       {statistics.median(publish):7.3f} s")
    print(
        f"  file {size / 1e6:.1f} MB, codec {codec / 1e6:.1f} MB, beside it {(size - codec) / 1e6:.1f} MB (at most 60)"
    )
    print(f"  opened, first 256 x 256 window         {statistics.median(opened):7.3f} s")


# -- list -------------------------------------------------------------------------------------------------------------


def listing() -> None:
    """A library of ENTRIES entries: first scan, later scans, and the first of another process."""
    with tempfile.TemporaryDirectory() as folder:
        library = Library(folder)
        with AnalysisWriter(library) as writer:
            writer.layer(record(0, 32, 0))
            first = library.folder(writer.publish(run_of(32, 0)))
        beside = sidecar.read(first)
        for number in range(ENTRIES - 1):
            other = library.folder(ids.new_id())
            other.mkdir()
            os.link(first / files.FILE, other / files.FILE)
            files.write_text(
                other / sidecar.FILE, sidecar.as_json(replace(beside, title=f"analysis {number}")), durable=False
            )
        time.sleep(2.5)  # so that no folder changed within the last two seconds
        print(f"list, {ENTRIES:,} entries")
        print(f"  first scan, no index                   {timed(library.list):7.3f} s")
        print(f"  next scan, same process                {median_of(library.list):7.3f} s   (under 0.3)")
        print(
            f"  first scan of another process          {median_of(lambda: Library(folder).list()):7.3f} s   (under 0.3)"
        )
        search = median_of(lambda: library.list(search="analysis 77"))
        print(f"  search                                 {search:7.3f} s")
        id = library.list()[0].id
        library.update(id, title="changed")
        print(f"  after one change                       {timed(library.list):7.3f} s")


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_of(work, repeats: int = 5) -> float:
    return statistics.median(timed(work) for _ in range(repeats))


# -- kills and crowds -------------------------------------------------------------------------------------------------


def small(seed: int) -> list[LayerRecord]:
    """Eight equal layers: an analysis that is quickly made and still written layer by layer."""
    one = record(0, 300, seed, heads=6, dtype=torch.bfloat16, impl="reference")
    return [replace(one, info=replace(one.info, layer=layer)) for layer in range(8)]


def write_one(library: Library, seed: int, records: list[LayerRecord], id: str | None = None) -> str:
    with AnalysisWriter(library, id=id) as writer:
        for item in records:
            writer.layer(item)
        return writer.publish(run_of(300, seed))


def write_forever(path: str, seed: int, until: float = float("inf")) -> None:
    """Saves, replaces and imports, over and over."""
    torch.set_num_threads(1)
    library, records = Library(path), small(seed)
    exported = Path(path) / f"exported-{os.getpid()}"
    written = 0
    while time.time() < until:
        id = write_one(library, seed, records)
        write_one(library, seed, records, FIXED)
        if not exported.exists():
            library.export(id, exported)
        library.import_file(exported)
        written += 3
    exported.unlink(missing_ok=True)
    print(f"  writer {seed}: {written} published", flush=True)


def is_whole(library: Library, id: str, truth: dict[int, np.ndarray]) -> bool:
    """Whether a published analysis opens, checks and shows the map it was written with."""
    check_file(library.folder(id) / files.FILE)
    return shows_truth(library, id, truth)


def shows_truth(library: Library, id: str, truth: dict[int, np.ndarray]) -> bool:
    analysis = library.open(id)
    found = analysis.map(3, 2, slice(100, 140))
    rows = analysis.sql("SELECT count(*) AS n FROM rows")["n"].to_pylist()
    return bool(np.abs(found - truth[analysis.info["seed"]]).max() < 2e-3) and rows == [8 * 6 * 300]


def truths() -> dict[int, np.ndarray]:
    """seed -> rows 100 to 139 of head 3.2 of the analyses of that seed."""
    with tempfile.TemporaryDirectory() as folder:
        library = Library(folder)
        return {s: library.open(write_one(library, s, small(s))).map(3, 2, slice(100, 140)) for s in range(SEEDS)}


def kills(count: int) -> None:
    """Writers killed at random moments; what is published is whole, what is not is gone."""
    processes, truth, chance = multiprocessing.get_context("forkserver"), truths(), random.Random(0)
    between = checked = 0
    span = 4 * seconds_to_save()  # the second and third file are under way by then
    with tempfile.TemporaryDirectory() as folder:
        library = Library(folder)
        for number in range(count):
            writer = processes.Process(target=write_forever, args=(folder, number % SEEDS))
            writer.start()
            wait_for_writing(library, writer)
            time.sleep(chance.random() * span)
            writer.kill()
            writer.join()
            between += any(path.stat().st_size for path in library.path.rglob(files.WRITING))
            for entry in library.list():
                assert is_whole(library, entry.id, truth), entry.id
                checked += 1
                if entry.id != FIXED:  # checked; the disk need not hold them all
                    library.delete(entry.id)
            for path in (library.path / "analyses").iterdir():
                os.utime(path, (1, 1))  # long ago, so that it counts as left behind
            library.clean_up(undo_seconds=0)
            left = [path.name for path in library.path.rglob("*") if path.name.startswith("analysis.writing")]
            assert not left, left
    print(
        f"kills: {count}, of them {between} between the first byte and the rename; {checked} published files checked,"
    )
    print("  all whole; nothing half present, nothing left behind")


def seconds_to_save() -> float:
    """How long one analysis takes here; a writer saves one, replaces one and imports one in turn."""
    records = small(0)
    with tempfile.TemporaryDirectory() as folder:
        return median_of(lambda: write_one(Library(folder), 0, records), 3)


def wait_for_writing(library: Library, writer) -> None:
    """Until the writer has begun a file."""
    while writer.is_alive() and not any((library.path / "analyses").glob(f"*/{files.WRITING}")):
        time.sleep(0.002)


def read_forever(path: str, seed: int, until: float, truth: dict[int, np.ndarray]) -> None:
    library, chance, read = Library(path), random.Random(seed), 0
    while time.time() < until:
        entries = library.list()
        for entry in chance.sample(entries, min(5, len(entries))):
            assert shows_truth(library, entry.id, truth), entry.id
            read += 1
    print(f"  reader {seed}: {read} analyses read, every map and row count right", flush=True)


def crowd(seconds: float) -> None:
    """Eight processes read and two write one library."""
    processes, truth = multiprocessing.get_context("forkserver"), truths()
    with tempfile.TemporaryDirectory() as folder:
        write_one(Library(folder), 0, small(0))
        print(f"crowd: 8 readers and 2 writers for {seconds:.0f} s")
        until = time.time() + seconds
        people = [processes.Process(target=read_forever, args=(folder, n, until, truth)) for n in range(8)]
        people += [processes.Process(target=write_forever, args=(folder, n, until)) for n in range(2)]
        for one in people:
            one.start()
        for one in people:
            one.join()
        failed = sum(one.exitcode != 0 for one in people)
        used = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        print(f"  {len(Library(folder).list())} analyses, {used / 1e6:.0f} MB; processes that failed: {failed}")
        assert failed == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("save", "list", "kills", "crowd"))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    chosen = parser.parse_args()
    parts = {
        "save": save,
        "list": listing,
        "kills": lambda: kills(chosen.kills),
        "crowd": lambda: crowd(chosen.seconds),
    }
    multiprocessing.set_forkserver_preload(["backend.store", "kernels.reference", "kernels.tiled"])
    for name, part in parts.items():
        if not chosen.only or name in chosen.only:
            part()


if __name__ == "__main__":
    main()

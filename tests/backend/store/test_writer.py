"""Writing: whole or not at all, under any ending."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from store_records import layer_record, run_record, store

from backend.errors import Damaged, NotFound, StoreError
from backend.store import AnalysisWriter, Library, check, files
from backend.types import Prediction, Segment

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent


def everything_under(library: Library) -> set[str]:
    return {path.name for path in (library.path / "analyses").rglob("*") if path.is_file()}


def test_only_the_file_and_its_sidecar_are_left(library):
    id = store(library, [layer_record(0), layer_record(1)])
    assert everything_under(library) == {"analysis.duckdb", "entry.json", "access.json"}
    assert [path.parent.name for path in library.path.rglob("*.duckdb")] == [id]


def test_leaving_without_publishing_leaves_nothing(library):
    with AnalysisWriter(library) as writer:
        writer.layer(layer_record(0, n=600, dim=64, heads=8))
        assert library.list() == [] and not list(library.path.rglob("*.duckdb"))
    with pytest.raises(RuntimeError, match="out of the run"), AnalysisWriter(library) as writer:
        raise RuntimeError("out of the run")
    assert everything_under(library) == set() and list((library.path / "analyses").iterdir()) == []


def test_a_folder_will_do_for_a_library(tmp_path):
    id = store(tmp_path / "new" / "folder", [layer_record()])
    assert Library(tmp_path / "new" / "folder").open(id).info["n_layers"] == 1


def test_a_fixed_name_is_replaced_whole(library):
    for n in (20, 12):
        with AnalysisWriter(library, id="the-cat") as writer:
            writer.layer(layer_record(n=n))
            assert writer.publish(run_record(n)) == "the-cat"
        assert library.open("the-cat").info["n_tokens"] == n
        assert library.open("the-cat").map(0, 0).shape == (n, n)
    with pytest.raises(NotFound):
        AnalysisWriter(library, id="../elsewhere")


def test_case_46_text_that_is_no_unicode_is_stored_with_a_replacement(library):
    run = run_record()
    tokens = [replace(run.tokens[0], text="x\ud83d", label="a\0b"), *run.tokens[1:]]
    run = replace(
        run,
        tokens=tokens,
        segments=[Segment("\udc00", "text", 0, 20)],
        predictions=[Prediction(0, 0, 1, "\ud800", -1.0)],
        info={**run.info, "prompt": {"text": "x\ud83d a\0b"}, "odd": [float("nan"), {"\ud83d": 1}]},
    )
    analysis = library.open(store(library, [layer_record()], run))
    assert analysis.tokens_list()[0].text == "x\ufffd" and analysis.tokens_list()[0].label == "a\0b"
    assert analysis.info["prompt"]["text"] == "x\ufffd a\0b" and analysis.info["odd"] == [None, {"\ufffd": 1}]
    assert analysis.segments()[0].name == "\ufffd"


def test_more_than_one_table_of_arrays_reads_as_one(library, monkeypatch):
    monkeypatch.setattr("backend.store.writer.MAPS_TABLE_BYTES", 300_000)
    records = [layer_record(i, n=300, heads=4, key_heads=2, dim=64, scale=1.0) for i in range(4)]
    monkeypatch.setattr("backend.store.exact.SMALL_ANALYSIS", 0)
    analysis = library.open(store(library, records))
    tables = {row["maps"] for row in analysis.table("layers").to_pylist()}
    assert len(tables) == 4
    assert all(analysis.map(layer, 3).shape == (300, 300) for layer in range(4))
    assert library.open(library.import_file(analysis.path)).map(3, 3).shape == (300, 300)


def test_the_check_before_publishing_finds_what_is_missing_or_changed(library):
    path = library.folder(store(library, [layer_record()])) / files.FILE
    check.check_file(path, {"rows": 80})
    with pytest.raises(Damaged, match="row counts"):
        check.check_file(path, {"rows": 81})


KILLED = """
    import sys, time, torch
    sys.path[:0] = [{root!r}, {here!r}]
    from store_records import layer_record, run_record
    from backend.store import AnalysisWriter, Library
    import backend.store.exact as exact
    exact.SMALL_ANALYSIS = 0
    with AnalysisWriter(Library({path!r})) as writer:
        for layer in range(1000):
            writer.layer(layer_record(layer, n=200, dim=64))
            print(layer, flush=True)
            time.sleep(0.01)
"""


def test_case_67_a_writer_that_is_killed_leaves_nothing_that_counts(library):
    script = textwrap.dedent(KILLED).format(root=str(ROOT), here=str(HERE), path=str(library.path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "0\n" and process.stdout.readline() == "1\n"
    folder = next((library.path / "analyses").iterdir())
    os.utime(folder, (1, 1))  # long ago
    assert library.clean_up() == 0 and (folder / files.WRITING).exists()  # its writer lives
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert library.list() == [] and not list(library.path.rglob("*.duckdb"))
    other = store(library, [layer_record()])
    os.utime(folder, (time.time(), time.time()))
    assert library.clean_up() == 0  # young: a writer may be about to lock it
    os.utime(folder, (1, 1))
    assert library.clean_up() == 1
    assert [path.name for path in (library.path / "analyses").iterdir()] == [other]


FULL = """
    import resource, signal, sys
    sys.path[:0] = [{root!r}, {here!r}]
    from store_records import layer_record, store
    from backend.errors import StoreError
    from backend.store import Library
    library = Library({path!r})
    record = layer_record(0, n=300, dim=64)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    try:
        store(library, [record])
    except StoreError as error:
        print(error)
    assert library.list() == [], library.list()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    id = store(library, [record])
    assert library.open(id).map(0, 0).shape == (300, 300)
"""


def test_case_71_a_full_disk_is_told_and_the_next_save_works(library):
    script = textwrap.dedent(FULL).format(root=str(ROOT), here=str(HERE), path=str(library.path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The analysis could not be saved: the disk is full. Free some space")
    assert everything_under(library) == {"analysis.duckdb", "entry.json", "access.json"}


def test_a_folder_that_cannot_be_written_is_told_before_the_run(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="could not be saved"):
        AnalysisWriter(tmp_path / "file")


def test_two_writers_at_once_publish_both(library):
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.append(store(library, [layer_record()]))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 2 and {entry.id for entry in library.list()} == set(ids)

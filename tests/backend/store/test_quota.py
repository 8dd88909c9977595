"""A library with a quota: the oldest go, never what somebody needs, and it is told."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from store_records import layer_record, run_record, store

from backend.errors import HeadwaterError, NotFound
from backend.store import Library, files, quota, save_study

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent


@pytest.fixture
def filled(library):
    """Four analyses, the first one the oldest, saved in another process' place: this library object saved none."""
    ids = [store(Library(library.path), [layer_record()], title=f"number {n}", owner="me") for n in range(4)]
    for age, id in enumerate(reversed(ids)):
        os.utime(library.folder(id) / files.FILE, (1_000_000 - age, 1_000_000 - age))
    return library, ids


def size(library) -> int:
    return library.storage_used() // 4


def test_case_69_over_quota_the_oldest_go_for_good_and_it_is_told_once(filled):
    library, (first, second, third, fourth) = filled
    one = size(library)
    library.quota_bytes = 3 * one + one // 2  # room for three
    new = store(library, [layer_record()], title="new", owner="you")
    assert {entry.id for entry in library.list()} == {third, fourth, new}
    assert library.storage_used() <= library.quota_bytes
    assert not list(library.path.rglob(f"{first}*")) and not list(library.path.rglob(f"{second}*"))
    assert quota.take_told(library, "you") == []  # told to whom they belonged
    told = quota.take_told(library, "me")
    assert [(e.id, e.title, e.bytes) for e in told] == [(first, "number 0", one), (second, "number 1", one)]
    assert quota.take_told(library, "me") == []


def test_case_69_disk_space_follows_what_is_deleted(library):
    def used():
        return sum(path.stat().st_size for path in library.path.rglob("*") if path.is_file())

    kept = store(library, [layer_record()])
    alone = used()
    reader = library.open(kept)
    for _ in range(10):
        id = store(library, [layer_record()])
        library.open(id).map(0, 0)
        library.delete(id)
    library.clean_up(undo_seconds=0)
    assert used() <= 1.1 * alone and reader.map(0, 0).shape == (20, 20)


def test_what_is_pinned_open_or_just_saved_stays_even_above_the_quota(filled):
    library, (first, second, *_) = filled
    library.update(first, pinned=True)
    held = library.open(second)
    library.quota_bytes = 1
    new = store(library, [layer_record()])
    assert {entry.id for entry in library.list()} == {first, second, new}
    assert held.map(0, 0).shape == (20, 20)
    del held  # closed: it goes with the next save
    newest = store(library, [layer_record()])
    assert {entry.id for entry in library.list()} == {first, newest}


def test_a_study_is_never_evicted(library):
    study = save_study(Library(library.path), "s", {}, [], {"scores": pa.table({"x": [1]})})
    library.quota_bytes = 1
    new = store(library, [layer_record()])
    assert {entry.id for entry in library.list()} == {study, new}


def test_an_imported_file_is_as_old_as_its_import(filled, tmp_path):
    library, _ = filled
    elsewhere = Library(tmp_path / "elsewhere")
    ancient = store(elsewhere, [layer_record()], run_record(created_at="1990-01-01T00:00:00+00:00"))
    imported = Library(library.path).import_file(elsewhere.open(ancient).path)
    library.quota_bytes = 2 * library.storage_used() // 5 + 1000  # room for two
    new = store(library, [layer_record()])
    assert {entry.id for entry in library.list()} == {imported, new}


OPENER = """
    import sys
    sys.path[:0] = [{root!r}]
    from backend.store import Library
    held = Library({path!r}).open({id!r})
    print(held.map(0, 0).shape, flush=True)
    for line in sys.stdin:
        print(held.map(0, 1).shape, flush=True)
"""


def test_what_another_process_has_open_stays_until_that_ends(filled):
    library, (first, *_) = filled
    script = textwrap.dedent(OPENER).format(root=str(ROOT), path=str(library.path), id=first)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "(20, 20)\n"
        library.quota_bytes = 1
        new = store(library, [layer_record()])
        assert {entry.id for entry in library.list()} == {first, new}
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "(20, 20)\n"
        other.kill()  # its mark stays behind and counts for nothing
        other.wait()
    assert list((library.path / "in_use").glob(f"{first}.*"))
    newest = store(library, [layer_record()])
    assert {entry.id for entry in library.list()} == {newest}
    assert not list((library.path / "in_use").glob(f"{first}.*"))
    (library.path / "in_use" / f"{'0' * 16}.lock").touch()  # of a process that was killed with nothing open
    library.clean_up()
    assert not (library.path / "in_use" / f"{'0' * 16}.lock").exists()
    assert library.open(newest).id in library._uses.open_ids()


def test_openers_and_evictions_at_once_never_lose_what_was_opened(library):
    """Whoever was handed an analysis can read it, whenever it was that the quota was kept."""
    readers = Library(library.path)
    wrong: list[str] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            for entry in readers.list():
                try:
                    held = readers.open(entry.id)
                except NotFound:  # gone before it was opened, which is allowed
                    continue
                try:
                    assert held.map(0, 0).shape == (20, 20)
                except HeadwaterError as error:
                    wrong.append(f"{entry.id}: {error}")
                del held
                readers._opened.let_go(entry.id)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    library.quota_bytes = 1
    for _ in range(12):
        store(library, [layer_record()])
    over.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_processes_that_keep_the_quota_evict_no_more_than_needed(filled):
    library, ids = filled
    one = size(library)
    others = [Library(library.path) for _ in range(3)]
    threads = [threading.Thread(target=quota.keep, args=(other, 2 * one)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.id for entry in library.list()} == set(ids[2:])
    assert {one.id for one in quota.take_told(library, "me")} == set(ids[:2])


def test_a_quota_that_cannot_be_kept_does_not_harm_the_save(filled, caplog):
    library, _ = filled
    library.quota_bytes = 1
    (library.path / "trash").write_text("in the way")
    new = store(library, [layer_record()])
    assert library.open(new).map(0, 0).shape == (20, 20) and len(library.list()) == 5
    assert "was not evicted" in caplog.text

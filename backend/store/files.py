"""How a file comes to be in a library: written beside its place under another name, forced to disk, renamed.

A writer works in the folder that will hold its file and keeps a lock there while it lives. A folder with a lock that
nobody holds is what a dead writer left behind; `sweep` removes it. Nothing with the final name is ever half written.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from backend.errors import HeadwaterError
from backend.store.database import store_error

FILE = "analysis.duckdb"
DELETED = "analysis.deleted"  # what FILE is called between delete and purge
WRITING = "analysis.writing"
SPILL = "writing.tmp"
LOCK = "writer.lock"
SWEEP_AFTER = 60.0  # seconds: a folder younger than this may belong to a writer that has not locked it yet


@contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """A locked folder to write FILE in; gives the temporary name. Everything temporary is gone afterwards.

    Where FILE exists already (a replacement), it stays until the new one is renamed over it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=30)
    with lock:
        try:
            yield folder / WRITING
        finally:
            clear(folder)


def clear(folder: Path) -> None:
    """Removes whatever a writer leaves, and the folder where nothing was published in it. The lock is held.

    The lock's file goes while it is held: whoever waits for it notices and makes a new one.
    """
    for path in folder.glob(f"{WRITING}*"):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / SPILL, ignore_errors=True)
    if os.name != "nt":  # Windows does not remove what is open; a lock nobody holds does no harm
        (folder / LOCK).unlink(missing_ok=True)
    if not (folder / FILE).exists() and not (folder / DELETED).exists():
        shutil.rmtree(folder, ignore_errors=True)


def put_in_place(temporary: Path, final: Path) -> None:
    """Makes the content durable, then gives it its name."""
    sync(temporary)
    temporary.replace(final)
    sync(final.parent)
    sync(final.parent.parent)


def copy_out(source: Path, target: Path, name: str) -> Path:
    """A copy at `target`, which must not exist yet, or under `name` in the folder that it is; complete or not there."""
    target = target / name if target.is_dir() else target
    if target.exists():
        raise HeadwaterError(f"{target.name} exists already; choose another name.")
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copyfile(source, partial)
        partial.replace(target)
    except OSError as error:
        raise store_error(error) from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def sync(path: Path) -> None:
    """Forces a file or the entries of a folder to disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handle for a folder's entries
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Replaces a small text file at once: readers see the old content or the new one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{time.monotonic_ns()}.tmp")
    try:
        temporary.write_text(text, "utf-8")
        if durable:
            sync(temporary)
        temporary.replace(path)
        if durable:
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sweep(analyses: Path) -> int:
    """Removes what dead writers left; the number of folders cleared. Living writers and young folders are let be."""
    cleared = 0
    for folder in analyses.iterdir() if analyses.is_dir() else ():
        left = [folder / WRITING, folder / SPILL, folder / LOCK]
        published = (folder / FILE).exists() or (folder / DELETED).exists()
        if not folder.is_dir() or (published and not any(path.exists() for path in left)):
            continue
        if abs(time.time() - folder.stat().st_mtime) < SWEEP_AFTER:
            continue
        try:
            with FileLock(folder / LOCK, timeout=0):
                clear(folder)
                cleared += 1
        except Timeout:
            continue
    return cleared

"""Which analyses of a library are open, in whichever process: an empty file for each, as long as it is.

A process holds a lock while it lives, so the files of one that was killed are told from those that count. The mutex of
the folder is held while an analysis is being opened and while one is taken away, so neither overtakes the other.
"""

from __future__ import annotations

import logging
import secrets
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

log = logging.getLogger(__name__)
MUTEX = "mutex.lock"


class Use:
    """One analysis that is open. Whoever reads it holds on to this; when nobody does, it is closed."""

    def __init__(self, uses: Uses) -> None:
        self._uses = uses  # its lock says that the process lives


class Uses:
    """The folder <library>/in_use, as seen by one library object. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = secrets.token_hex(8)
        self._alive: FileLock | None = None
        self._lock = threading.Lock()
        self._count = 0

    def begin(self, id: str) -> Use:
        """Marks an analysis as open until the returned object is gone. Call it with the mutex held.

        Where the folder cannot be written there is no mark; nothing can be evicted from there either.
        """
        use = Use(self)
        try:
            with self._lock:
                self._count += 1
                mark = self._folder / f"{id}.{self._process}.{self._count}"
                self._live()
                mark.touch()
        except OSError as error:
            log.debug("no mark for %s: %s", id, error)
            return use
        weakref.finalize(use, mark.unlink, missing_ok=True)
        return use

    def open_ids(self) -> set[str]:
        """The analyses that some living process has open."""
        living: dict[str, bool] = {}
        found = set()
        for mark in self._folder.glob("*.*.*"):
            id, process, _ = mark.name.split(".", 2)
            if process not in living:
                living[process] = self._lives(process)
            if living[process]:
                found.add(id)
            else:
                mark.unlink(missing_ok=True)
        for process in [process for process, lives in living.items() if not lives]:
            (self._folder / f"{process}.lock").unlink(missing_ok=True)
        return found

    def sweep(self) -> None:
        """Removes what killed processes left. Call it with the mutex held."""
        self.open_ids()
        for lock in self._folder.glob("*.lock"):
            if lock.name != MUTEX and not self._lives(lock.stem):
                lock.unlink(missing_ok=True)

    @contextmanager
    def mutex(self) -> Iterator[None]:
        """Held while something is opened or taken away. A folder that cannot be written needs none."""
        lock = FileLock(self._folder / MUTEX, timeout=30, thread_local=False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except (OSError, Timeout) as error:
            log.debug("no mutex in %s: %s", self._folder, error)
            yield
            return
        try:
            yield
        finally:
            lock.release()

    def _live(self) -> None:
        """Takes the lock that says that this process lives, once."""
        if self._alive is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{self._process}.lock"
            alive = FileLock(path, timeout=0, thread_local=False)
            alive.acquire()
            self._alive = alive
            weakref.finalize(self, _let_go, alive, path)

    def _lives(self, process: str) -> bool:
        if process == self._process:
            return True
        lock = self._folder / f"{process}.lock"
        if not lock.exists():
            return False
        try:
            with FileLock(lock, timeout=0, thread_local=False):
                return False
        except Timeout:
            return True


def _let_go(alive: FileLock, path: Path) -> None:
    alive.release()
    with suppress(OSError):
        path.unlink(missing_ok=True)

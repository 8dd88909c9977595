"""Open files of this process: bounded in number, shared by all threads, reopened when needed.

A file counts as the same while its inode and size do; one that was replaced is opened anew.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from backend.errors import Damaged, NotFound
from backend.store import database, schema

MOST_OPEN = 12


@dataclass(eq=False)
class _Open:
    """One file, and how many callers are using it right now."""

    identity: tuple[int, int]
    views: list[str] = field(default_factory=list)
    connection: duckdb.DuckDBPyConnection | None = None
    users: int = 0
    retired: bool = False
    opening: threading.Lock = field(default_factory=threading.Lock)


class Connections:
    """A bounded set of read-only connections, the least recently used closed first."""

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._files: OrderedDict[Path, _Open] = OrderedDict()

    @contextmanager
    def cursor(self, path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of one's own on the file; use it in one thread. Damaged where DuckDB finds a damaged block."""
        opened = self._take(path)
        try:
            with opened.opening:  # one thread opens, the others wait; cursors are made one at a time
                if opened.connection is None:
                    opened.connection, opened.views = _open(path)
                cursor = opened.connection.cursor()
            try:
                cursor.execute(f"USE {database.NAME}")
                for view in opened.views:
                    cursor.execute(view)
                yield cursor
            finally:
                cursor.close()
        except (duckdb.Error, OSError) as error:
            if not database.is_damage(error):
                raise
            self.forget(path)
            raise Damaged(f"a part of the file is damaged ({database.first_line(error)})") from error
        finally:
            self._give_back(opened)

    def forget(self, path: Path) -> None:
        """Closes the file as soon as nobody uses it."""
        with self._lock:
            opened = self._files.pop(path, None)
            if opened is not None:
                self._retire(opened)

    def open_files(self) -> int:
        """How many files are open or being opened."""
        with self._lock:
            return len(self._files)

    def _take(self, path: Path) -> _Open:
        try:
            status = path.stat()
        except OSError:
            self.forget(path)
            raise NotFound("This analysis is no longer there: it was deleted or moved. Choose another one.") from None
        identity = (status.st_ino, status.st_size)
        with self._lock:
            opened = self._files.get(path)
            if opened is not None and opened.identity != identity:
                self._retire(self._files.pop(path))
                opened = None
            if opened is None:
                for gone in [p for p in self._files if not p.exists()]:  # deleted files free their space
                    self._retire(self._files.pop(gone))
                opened = self._files[path] = _Open(identity)
            opened.users += 1
            self._files.move_to_end(path)
            idle = [p for p, o in self._files.items() if o.users == 0]
            for old in idle[: max(0, len(self._files) - self._most)]:
                self._retire(self._files.pop(old))
        return opened

    def _give_back(self, opened: _Open) -> None:
        with self._lock:
            opened.users -= 1
            if opened.retired:
                self._retire(opened)

    def _retire(self, opened: _Open) -> None:
        """Closes now, or when the last user is done. The lock is held."""
        opened.retired = True
        if opened.users == 0 and opened.connection is not None:
            opened.connection.close()
            opened.connection = None


def _open(path: Path) -> tuple[duckdb.DuckDBPyConnection, list[str]]:
    """The connection, and the views that show an older file as one of the current version."""
    connection = database.reading(path)
    try:
        version = stored_version(connection)
        schema.check_version(version)
    except BaseException:
        connection.close()
        raise
    return connection, schema.reading_views(version, database.NAME)


def stored_version(connection: duckdb.DuckDBPyConnection) -> int:
    """The schema version inside the file; Damaged where it has none."""
    try:
        query = f"SELECT value FROM {database.NAME}.info WHERE name = 'schema_version'"
        found = connection.execute(query).fetchall()
        version = int(found[0][0])
    except (duckdb.Error, IndexError, ValueError, TypeError) as error:
        reason = database.first_line(error)
        raise Damaged(f"This DuckDB file is no analysis of Headwater: it has no schema version ({reason}).") from None
    if version < 1:
        raise Damaged(f"This file gives schema version {version}; versions start at 1.")
    return version


connections = Connections()  # those of this process

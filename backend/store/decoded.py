"""What was decoded last, by file: bounded in bytes, shared by all threads and analyses of the process."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path

from backend.errors import NotFound

MOST_BYTES = 256 * 1024 * 1024


class Decoded:
    """Least recently used first out. A file counts as the same while its inode, size and time do."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._bytes = 0

    def get(self, path: Path, name: Hashable, read: Callable[[], object]):
        """The kept value, else what `read` gives. Nobody may change it. Its size is its `nbytes`, where it has any."""
        key = (*identity(path), name)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        value = read()  # outside the lock: others go on; two may read the same once
        size = getattr(value, "nbytes", sys.getsizeof(value))
        with self._lock:
            if key not in self._kept and size <= self._most:
                self._kept[key] = (value, size)
                self._bytes += size
            while self._bytes > self._most:
                self._bytes -= self._kept.popitem(last=False)[1][1]
        return value


def identity(path: Path) -> tuple:
    """What tells a file from another one of the same name."""
    try:
        status = path.stat()
    except OSError:
        raise NotFound("This analysis is no longer there: it was deleted or moved. Choose another one.") from None
    return (path, status.st_ino, status.st_size, status.st_mtime_ns)


decoded = Decoded()  # that of this process

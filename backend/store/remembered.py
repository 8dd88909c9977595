"""The analyses that a library opened: the same object for everybody who asks while it lives, the last few kept."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from weakref import WeakValueDictionary

from backend.store.maps import Analysis
from backend.store.study import Study

LET_GO_AFTER = 600.0  # seconds: what nobody asked for since then is no longer kept


class Remembered:
    """Thread-safe. `most` opened files are kept alive here; what others hold on to is known as well."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, Analysis | Study]] = OrderedDict()
        self._alive: WeakValueDictionary[tuple, Analysis | Study] = WeakValueDictionary()

    def get(self, id: str, file: tuple) -> Analysis | Study | None:
        """What is open under this id, if it is this very file."""
        with self._lock:
            found = self._alive.get((id, file))
            if found is not None:
                self._keep(id, found)
            return found

    def add(self, id: str, file: tuple, opened: Analysis | Study) -> Analysis | Study:
        """Remembers it; gives the one that another thread opened a moment before, where there is one."""
        with self._lock:
            opened = self._alive.setdefault((id, file), opened)
            self._keep(id, opened)
            return opened

    def let_go(self, id: str) -> None:
        """No longer keeps it: from now on it lives as long as others hold it."""
        with self._lock:
            self._kept.pop(id, None)

    def _keep(self, id: str, opened: Analysis | Study) -> None:
        """The lock is held."""
        now = time.monotonic()
        self._kept[id] = (now, opened)
        self._kept.move_to_end(id)
        while self._kept:
            since = next(iter(self._kept.values()))[0]
            if len(self._kept) <= self._most and now - since < LET_GO_AFTER:
                break
            self._kept.popitem(last=False)

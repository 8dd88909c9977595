"""A library that is not kept."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from backend.store.library import Library
from backend.store.remembered import Remembered


class TemporaryLibrary(Library):
    """A library that lives as long as the analyses opened from it: for results that are not to be kept."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="headwater-"))
        super().__init__(folder)
        self._uses = None  # nobody else knows it
        self._opened = Remembered(0)  # it does not hold on to what holds on to it
        self._finalizer = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def keep_alive(self) -> object:
        return self

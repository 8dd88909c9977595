"""Libraries that are not the data folder: a temporary one, and the analyses that ship with the project."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from backend.settings import bundled_folder, data_folder
from backend.store import files
from backend.store.library import Library
from backend.store.maps import Analysis
from backend.store.study import Study


class TemporaryLibrary(Library):
    """A library that lives as long as the analyses opened from it: for results that are not to be kept."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="headwater-"))
        super().__init__(folder)
        self._most_kept = 0  # it does not hold on to what holds on to it
        self._finalizer = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def keep_alive(self) -> object:
        return self


def bundled_library() -> Library:
    """The analyses that ship with the project."""
    return Library(bundled_folder(), read_only=True)


def open_anywhere(id: str) -> Analysis | Study:
    """The analysis or study of that id in the data folder, else among the bundled ones."""
    own = Library(data_folder())
    if (own.folder(id) / files.FILE).is_file():
        return own.open(id)
    return bundled_library().open(id)

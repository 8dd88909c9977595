"""Deleted entries of one library: each waits here, its file under another name, until it is restored or removed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from backend.errors import NotFound
from backend.store import database, files


class Trash:
    """What was taken out of the folder of analyses and can still come back."""

    def __init__(self, analyses: Path, folder: Path) -> None:
        self._analyses = analyses
        self._folder = folder

    def take(self, id: str) -> None:
        """Moves an entry here; NotFound or StoreError where that cannot be done. The file's name goes first, so that
        nobody opens what is on its way."""
        folder, place = self._analyses / id, self._folder / id
        with database.moving(id):
            self._folder.mkdir(parents=True, exist_ok=True)
            (folder / files.FILE).replace(folder / files.DELETED)
            shutil.rmtree(place, ignore_errors=True)
            folder.replace(place)
            os.utime(place)

    def give_back(self, id: str) -> None:
        """Undoes `take`."""
        folder, place = self._analyses / id, self._folder / id
        if folder.exists() or not (place / files.DELETED).is_file():
            raise NotFound(f"Analysis {id} cannot be restored: it was removed for good, or is there.")
        with database.moving(id):
            place.replace(folder)
            (folder / files.DELETED).replace(folder / files.FILE)

    def remove(self, id: str) -> None:
        """Removes one entry for good."""
        shutil.rmtree(self._folder / id, ignore_errors=True)

    def remove_old(self, seconds: float) -> int:
        """Removes what has been here for so long, and finishes deletes that were killed half way; how many went."""
        for folder in [path.parent for path in self._analyses.glob(f"*/{files.DELETED}")]:
            if not (folder / files.FILE).exists():
                self._folder.mkdir(parents=True, exist_ok=True)
                folder.replace(self._folder / folder.name)
        removed = 0
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            if abs(time.time() - folder.stat().st_mtime) >= seconds:
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
        return removed

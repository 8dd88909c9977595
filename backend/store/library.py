"""Library: a folder of analyses that many processes read and write at once."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from filelock import FileLock

from backend.errors import HeadwaterError, NotFound, StoreError
from backend.store import database, files, ids, sidecar
from backend.store.check import check_file
from backend.store.connections import connections
from backend.store.decoded import identity
from backend.store.entries import INDEX, Entry, Index, chosen, entry_of, summary_of
from backend.store.importing import check_foreign
from backend.store.maps import Analysis
from backend.store.reader import StoredFile
from backend.store.study import Study

UNDO_SECONDS = 600.0  # a deleted entry can be restored for this long
KEPT_OPEN = 64  # opened analyses remembered per library
SIDECAR_LOCK = "entry.lock"


class Library:
    """The analyses and studies of one data folder: <path>/analyses/<id>/analysis.duckdb, and a small JSON beside each.

    What is published is complete and never changes; what may change is the JSON. Any number of processes may use the
    same folder, and reading works in a read-only one.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        """read_only: nothing is ever written there, not even a cache (the analyses that ship with the project)."""
        self.path = Path(path).expanduser().resolve()
        self.read_only = read_only
        self._analyses = self.path / "analyses"
        self._index = Index(self._analyses, None if read_only else self.path / INDEX)
        self._lock = threading.Lock()
        self._most_kept = KEPT_OPEN
        self._opened: OrderedDict[str, tuple[tuple, Analysis | Study]] = OrderedDict()

    def __repr__(self) -> str:
        return f"Library({str(self.path)!r})"

    # -- reading -------------------------------------------------------------------------------------------------------

    def open(self, id: str) -> Analysis | Study:
        """The analysis or study of that id. NotFound, Damaged or NewerFile where it cannot be read."""
        path = self.folder(id) / files.FILE
        if not path.is_file():
            raise missing(id)
        now = identity(path)
        with self._lock:
            kept = self._opened.get(id)
            if kept is not None and kept[0] == now:
                self._opened.move_to_end(id)
                return kept[1]
        opened = Analysis(path, id, keep_alive=self.keep_alive())
        if opened.info.get("type") == "study":
            opened = Study(path, id, keep_alive=self.keep_alive())
        with self._lock:
            self._opened[id] = (now, opened)
            while len(self._opened) > self._most_kept:
                self._opened.popitem(last=False)
        return opened

    def list(self, **choice) -> list[Entry]:
        """All entries, newest first; or those that fit search, tags, type, model, pinned, in the order of `sort`."""
        return chosen(list(self._index.entries(self._entry).values()), **choice)

    def entry(self, id: str) -> Entry:
        """One entry of the list."""
        found = self._entry(id) if ids.is_id(id) else None
        if found is None:
            raise missing(id)
        return found

    def details(self, id: str) -> sidecar.Sidecar:
        """What may change about an entry: title, tags, notes, pin, visibility, labels of heads."""
        self.entry(id)
        return sidecar.read(self.folder(id))

    def find(self, cache_key: str, *, owner: str | None = None) -> str | None:
        """The newest analysis of exactly that work which this owner may see, None where there is none.

        What was imported is never an answer: its key was written by somebody else.
        """
        for entry in self.list():
            may_see = entry.visibility != "private" or (owner is not None and entry.owner == owner)
            if entry.cache_key == cache_key and not entry.imported and may_see:
                return entry.id
        return None

    def storage_used(self) -> int:
        """Bytes of all analysis files."""
        return sum(entry.bytes for entry in self.list())

    def folder(self, id: str) -> Path:
        """Where an entry lives. The id is checked: nothing else becomes part of a path."""
        return self._analyses / ids.checked(id)

    # -- writing -------------------------------------------------------------------------------------------------------

    def save(self, analysis: Analysis | Study) -> str:
        """Copies an analysis of another library, such as a temporary one, into this one; its id here.

        The id stays where it is free and nobody could guess it; what ships with Headwater gets one of its own.
        """
        if analysis.path == self._analyses / analysis.id / files.FILE:
            return analysis.id
        free = len(analysis.id) >= ids.LENGTH and not self.folder(analysis.id).exists()
        id = analysis.id if free else ids.new_id()
        beside = sidecar.read(analysis.path.parent)
        return self._take_in(analysis.path, id, beside)

    def import_file(self, path: Path | str, *, owner: str | None = None, visibility: str = "link") -> str:
        """Takes in an analysis file from somewhere else; its id here. The file itself is only read.

        Everything in it is checked first: Damaged, NewerFile or Refused say why it was not taken.
        """
        source = Path(path)
        if not source.is_file():
            raise NotFound(f"There is no file {source.name!r} to import.")
        beside = sidecar.Sidecar(imported=True, owner=owner, visibility=visibility)
        return self._take_in(source, ids.new_id(), beside, check=check_foreign)

    def export(self, id: str, path: Path | str) -> Path:
        """A copy of the file at `path`, which must not exist yet; a folder gets <id>.duckdb."""
        source = self.folder(id) / files.FILE
        if not source.is_file():
            raise missing(id)
        target = Path(path)
        if target.is_dir():
            target = target / f"{id}.duckdb"
        if target.exists():
            raise HeadwaterError(f"{target} exists already; choose another name.")
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            shutil.copyfile(source, partial)
            partial.replace(target)
        except OSError as error:
            raise database.store_error(error) from error
        finally:
            partial.unlink(missing_ok=True)
        return target

    def update(
        self,
        id: str,
        *,
        title: str | None = None,
        tags: list[str] | tuple[str, ...] | None = None,
        notes: str | None = None,
        pinned: bool | None = None,
        visibility: str | None = None,
        heads: dict[str, dict] | None = None,
    ) -> Entry:
        """Changes what may change; None leaves a field as it is.

        heads: "layer.head" -> {label, note, pinned}; {} takes the label away.
        """
        self._refuse_read_only()
        self.entry(id)
        changes = {"title": title, "tags": tags, "notes": notes, "pinned": pinned}
        changes |= {"visibility": visibility, "heads": heads}
        folder = self.folder(id)
        try:
            with FileLock(folder / SIDECAR_LOCK, timeout=30):
                sidecar.write(folder, sidecar.changed(self._sidecar(id), changes))
        except OSError as error:
            raise database.store_error(error) from error
        return self.entry(id)

    def delete(self, id: str) -> None:
        """Takes an entry out of the library. `restore` brings it back until `clean_up` has removed it for good."""
        self._refuse_read_only()
        folder = self.folder(id)
        if not (folder / files.FILE).exists():
            raise missing(id)
        trash = self._trash
        with database.moving(id):
            trash.mkdir(parents=True, exist_ok=True)
            (folder / files.FILE).replace(folder / files.DELETED)
            shutil.rmtree(trash / id, ignore_errors=True)
            folder.replace(trash / id)
            os.utime(trash / id)
        connections.forget(folder / files.FILE)
        with suppress(OSError):  # another process may clean up as well
            self.clean_up(only_deleted=True)

    def restore(self, id: str) -> None:
        """Undoes `delete`."""
        self._refuse_read_only()
        folder, trash = self.folder(id), self._trash / ids.checked(id)
        if folder.exists() or not (trash / files.DELETED).is_file():
            raise NotFound(f"Analysis {id} cannot be restored: it was removed for good, or is there.")
        with database.moving(id):
            trash.replace(folder)
            (folder / files.DELETED).replace(folder / files.FILE)

    def clean_up(self, undo_seconds: float = UNDO_SECONDS, *, only_deleted: bool = False) -> int:
        """Removes deleted entries for good once they can no longer be restored, and what dead writers left behind.

        Returns the number of folders removed.
        """
        self._refuse_read_only()
        removed = 0
        for folder in [path.parent for path in self._analyses.glob(f"*/{files.DELETED}")]:
            if not (folder / files.FILE).exists():  # its delete was killed half way
                self._trash.mkdir(parents=True, exist_ok=True)
                folder.replace(self._trash / folder.name)
        for folder in self._trash.iterdir() if self._trash.is_dir() else ():
            if abs(time.time() - folder.stat().st_mtime) >= undo_seconds:
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
        return removed if only_deleted else removed + files.sweep(self._analyses)

    # -- for the writers of this room ----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Makes the folders that a writer needs."""
        self._refuse_read_only()
        self._analyses.mkdir(parents=True, exist_ok=True)

    def put(self, id: str, temporary: Path, content: sidecar.Sidecar) -> None:
        """Publishes a finished, checked file: first the sidecar, then the name that makes it visible."""
        folder = self.folder(id)
        try:
            sidecar.write(folder, content)
            files.put_in_place(temporary, folder / files.FILE)
        except OSError as error:
            raise database.store_error(error) from error
        connections.forget(folder / files.FILE)

    def keep_alive(self) -> object:
        """What an opened analysis must hold on to; nothing for a library that stays."""
        return None

    @property
    def _trash(self) -> Path:
        return self.path / "trash"

    def _take_in(self, source: Path, id: str, beside: sidecar.Sidecar, check=None) -> str:
        """Copies a file under a temporary name, checks the copy, and publishes it."""
        try:
            self.prepare()
            with files.workplace(self.folder(id)) as temporary:
                shutil.copyfile(source, temporary)
                (check or check_file)(temporary)
                info = StoredFile(temporary, id).info
                connections.forget(temporary)
                summary = summary_of(info, temporary.stat().st_size)
                title = beside.title or sidecar.title_of(info)
                self.put(id, temporary, replace(beside, title=title, summary=summary))
        except OSError as error:
            raise database.store_error(error) from error
        return id

    def _sidecar(self, id: str) -> sidecar.Sidecar:
        """The sidecar, its summary read from the file where it is missing or is that of another file."""
        folder = self.folder(id)
        content = sidecar.read(folder)
        size = (folder / files.FILE).stat().st_size
        if content.summary.get("bytes") != size:
            info = StoredFile(folder / files.FILE, id).info
            content = replace(content, summary=summary_of(info, size), title=content.title or sidecar.title_of(info))
        return content

    def _entry(self, id: str) -> Entry | None:
        """The entry of a folder; None where there is none. A damaged file is listed by its name."""
        try:
            return entry_of(id, self._sidecar(id))
        except (OSError, NotFound):
            return None
        except HeadwaterError:
            content = sidecar.read(self.folder(id))
            return replace(entry_of(id, content), title=content.title or f"{id} (damaged)")

    def _refuse_read_only(self) -> None:
        if self.read_only:
            raise StoreError(
                "These analyses ship with Headwater and cannot be changed. Save a copy in your own library."
            )


def missing(id: object) -> NotFound:
    return NotFound(
        f"There is no analysis {str(id)[:64]!r} here. It may have been deleted; check the link or choose another."
    )

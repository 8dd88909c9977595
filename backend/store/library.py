"""Library: a folder of analyses that many processes read and write at once."""

from __future__ import annotations

import logging
import shutil
import threading
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from backend.errors import HeadwaterError, NotFound, StoreError
from backend.store import database, derived, files, ids, quota, sidecar
from backend.store.check import check_file
from backend.store.connections import connections
from backend.store.decoded import identity
from backend.store.entries import INDEX, Entry, Index, chosen, entry_of, summary_of
from backend.store.import_limits import check_kind
from backend.store.importing import check_foreign
from backend.store.maps import Analysis
from backend.store.reader import StoredFile
from backend.store.remembered import Remembered
from backend.store.study import Study
from backend.store.trash import Trash
from backend.store.uses import Uses

UNDO_SECONDS = 600.0  # a deleted entry can be restored for this long
KEPT_OPEN = 64  # opened analyses remembered per library
SIDECAR_LOCK = "entry.lock"
IN_USE = "in_use"
TRASH = "trash"
log = logging.getLogger(__name__)


class Library:
    """The analyses and studies of one data folder: <path>/analyses/<id>/analysis.duckdb, and a small JSON beside each.

    What is published is complete and never changes; what may change is the JSON. Any number of processes may use the
    same folder, and reading works in a read-only one.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False, quota_mb: int = 0) -> None:
        """read_only: nothing is ever written there, not even a cache (the analyses that ship with the project).

        quota_mb: when the files take more, the oldest analyses are evicted at the next save, see `quota`; 0 = never.
        """
        self.path = Path(path).expanduser().resolve()
        self.read_only = read_only
        self.quota_bytes = quota_mb * 1_000_000
        self._analyses = self.path / "analyses"
        self._index = Index(self._analyses, None if read_only else self.path / INDEX)
        self._trash = Trash(self._analyses, self.path / TRASH)
        self._uses: Uses | None = None if read_only else Uses(self.path / IN_USE)
        self._latest = threading.local()  # what a thread saved last counts as open until it saves the next one
        self._opened = Remembered(KEPT_OPEN)

    def __repr__(self) -> str:
        return f"Library({str(self.path)!r})"

    # -- reading -------------------------------------------------------------------------------------------------------

    def open(self, id: str) -> Analysis | Study:
        """The analysis or study of that id. NotFound, Damaged or NewerFile where it cannot be read."""
        path = self.folder(id) / files.FILE
        if not path.is_file():
            raise ids.missing(id)
        now = identity(path)
        opened = self._opened.get(id, now)
        if opened is not None:
            return opened
        with self._mutex():  # from here on it is in use: nobody evicts it
            if not path.is_file():
                raise ids.missing(id)
            keep = (self.keep_alive(), self._uses.begin(id) if self._uses is not None else None)
        opened = Analysis(path, id, keep_alive=keep)
        if opened.info.get("type") == "study":
            opened = Study(path, id, keep_alive=keep)
        return self._opened.add(id, now, opened)

    def list(self, **choice) -> list[Entry]:
        """All entries, newest first; or those that fit search, tags, type, model, pinned, in the order of `sort`."""
        entries = self._index.entries(self._entry)
        return chosen([derived.seen(entry, entries.get) for entry in entries.values()], **choice)

    def entry(self, id: str) -> Entry:
        """One entry of the list."""
        found = self._entry(id) if ids.is_id(id) else None
        if found is None:
            raise ids.missing(id)
        return derived.seen(found, self._entry)

    def details(self, id: str) -> sidecar.Sidecar:
        """What may change about an entry: title, tags, notes, pin, visibility, labels of heads."""
        self.entry(id)
        return self._sidecar(id)

    def find(self, cache_key: str, *, owner: str | None = None, visibility: str | None = None) -> str | None:
        """The newest analysis of exactly that work which this owner may see, None where there is none.

        visibility: only those with this one. What was imported is never an answer: its key is somebody else's word.
        """
        for entry in self.list():
            may_see = entry.visibility != "private" or (owner is not None and entry.owner == owner)
            wanted = entry.cache_key == cache_key and visibility in (None, entry.visibility)
            if wanted and may_see and not entry.imported:
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
        beside = sidecar.read(analysis.path.parent, analysis.saved_with)
        return self._take_in(analysis.path, id, beside)

    def import_file(self, path: Path | str, *, owner: str | None = None, visibility: str = "link") -> str:
        """Takes in an analysis file from somewhere else; its id here. The file itself is only read.

        Everything in it is checked first: Damaged, NewerFile or Refused say why it was not taken.
        """
        source = Path(path)
        if not source.is_file():
            raise NotFound(f"There is no file {source.name!r} to import.")
        check_kind(source)
        beside = sidecar.Sidecar(imported=True, owner=owner, visibility=visibility)
        return self._take_in(source, ids.new_id(), beside, check=check_foreign)

    def export(self, id: str, path: Path | str) -> Path:
        """A copy of the file at `path`, which must not exist yet; a folder gets <id>.duckdb."""
        source = self.folder(id) / files.FILE
        if not source.is_file():
            raise ids.missing(id)
        return files.copy_out(source, Path(path), f"{id}.duckdb")

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
        derived.check_opening(self.entry(id), visibility, self._entry)
        changes = {"title": title, "tags": tags, "notes": notes, "pinned": pinned}
        changes |= {"visibility": visibility, "heads": heads}
        folder = self.folder(id)
        try:
            with FileLock(folder / SIDECAR_LOCK, timeout=30):
                sidecar.write(folder, sidecar.changed(self._sidecar(id), changes))
        except (OSError, Timeout) as error:
            raise database.store_error(error) from error
        return self.entry(id)

    def delete(self, id: str) -> None:
        """Takes an entry out of the library. `restore` brings it back until `clean_up` has removed it for good."""
        self._refuse_read_only()
        folder = self.folder(id)
        if not (folder / files.FILE).exists():
            raise ids.missing(id)
        derived.seal(self, id)
        self._trash.take(id)
        connections.forget(folder / files.FILE)
        with suppress(OSError):  # another process may clean up as well
            self.clean_up(only_deleted=True)

    def restore(self, id: str) -> None:
        """Undoes `delete`."""
        self._refuse_read_only()
        self._trash.give_back(ids.checked(id))

    def evict(self, id: str) -> bool:
        """Removes an analysis for good to keep the quota; False where it is open, here or in another process."""
        self._refuse_read_only()
        self._opened.let_go(id)  # remembered is not open: somebody must hold it
        derived.seal(self, id)
        with self._mutex():
            if self._uses is None or id in self._uses.open_ids():
                return False
            self._trash.take(id)
        connections.forget(self.folder(id) / files.FILE)
        self._trash.remove(id)
        return True

    def clean_up(self, undo_seconds: float = UNDO_SECONDS, *, only_deleted: bool = False) -> int:
        """Removes deleted entries for good once they can no longer be restored, and what dead writers left behind.

        Returns the number of folders removed.
        """
        self._refuse_read_only()
        removed = self._trash.remove_old(undo_seconds)
        if self._uses is not None and not only_deleted:
            with self._mutex():
                self._uses.sweep()
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
            with self._mutex():
                latest = self._uses.begin(id) if self._uses is not None else None
            sidecar.write(folder, content)
            files.put_in_place(temporary, folder / files.FILE)
        except OSError as error:
            raise database.store_error(error) from error
        connections.forget(folder / files.FILE)
        self._latest.use = latest
        self._keep_quota()

    def _keep_quota(self) -> None:
        if not self.quota_bytes:
            return
        try:
            quota.keep(self, self.quota_bytes)
        except (OSError, Timeout, HeadwaterError) as error:  # what was saved is saved all the same
            log.warning("the quota of the library could not be kept: %s", error)

    def keep_alive(self) -> object:
        """What an opened analysis must hold on to; nothing for a library that stays."""
        return None

    def _mutex(self):
        return nullcontext() if self._uses is None else self._uses.mutex()

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
        size = (folder / files.FILE).stat().st_size  # first: where there is no file, nobody asks who may see it
        content = sidecar.read(folder, StoredFile(folder / files.FILE, id).saved_with)
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
                "Nothing can be changed here: these analyses ship with Headwater, or this server only shows. Save a "
                "copy in a library of your own."
            )

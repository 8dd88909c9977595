"""All analyses the app can show: the data folder's own and the bundled ones, and who may open which.

A link with an unguessable id is enough to open an analysis, unless it is private: then only its owner's browser may,
and for everybody else it does not exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from backend.errors import NotFound
from backend.settings import bundled_folder
from backend.store import Analysis, Entry, Library, Study

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
OWNER_COOKIE = "headwater_owner"  # random name of a browser; it owns what it ran


@dataclass(frozen=True, eq=False)
class Opened:
    """An analysis or study, and whether its answers may be kept by shared caches."""

    analysis: Analysis | Study
    private: bool


class Shelf:
    """The own library and the bundled one, side by side. One per process and data folder."""

    def __init__(self, folder: Path, bundled: Path | None = None) -> None:
        self.own = Library(folder)
        self.bundled = Library(bundled or bundled_folder())

    def library_of(self, id: str) -> Library:
        """The library that holds an id; the bundled one only for the ids that ship."""
        return self.bundled if id in self.bundled_ids else self.own

    @cached_property
    def bundled_ids(self) -> frozenset[str]:
        return frozenset(entry.id for entry in self.bundled.list())

    def entries(self, owner: str | None) -> list[Entry]:
        """What this person may see: the own folder's entries newest first, then the bundled ones."""
        own = [entry for entry in self.own.list() if may_see(entry, owner)]
        return own + self.bundled.list()

    def title(self, id: str) -> str:
        """The title as it is now; titles may change while the analysis stays."""
        return self.library_of(id).entry(id).title

    def open(self, id: str, owner: str | None = None) -> Opened:
        """Opens by id; raises NotFound where there is none, or none for this person."""
        if not ID.fullmatch(id):
            raise NotFound(f"An id has 1 to 64 letters, digits, '-' and '_'; {id[:64]!r} is none. Check the link.")
        library = self.library_of(id)
        missing = NotFound(f"There is no analysis {id}. It may have been deleted; check the link or choose another.")
        try:
            entry = library.entry(id)
        except NotFound:
            raise missing from None
        if not may_see(entry, owner):
            raise missing
        return Opened(library.open(id), private=entry.visibility == "private")


def may_see(entry: Entry, owner: str | None) -> bool:
    """Whether this person may see an entry."""
    return entry.visibility != "private" or (owner is not None and entry.owner == owner)

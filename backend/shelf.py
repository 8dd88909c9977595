"""All analyses the app can show: the data folder's own and the bundled ones, and who may open which.

A link with an unguessable id is enough to open an analysis, unless it is private: then only its owner's browser may,
and for everybody else it does not exist.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from backend.errors import NotFound, Refused
from backend.map_sizes import map_sizes
from backend.settings import QUOTA_MB, READ_ONLY, UPLOAD_MB, bundled_folder
from backend.store import Analysis, Entry, HeadMark, Library, Study, ids
from backend.store.head_marks import marks, name_of

OWNER_COOKIE = "headwater_owner"  # random name of a browser; it owns what it ran
BROWSER = re.compile(r"[A-Za-z0-9_-]{22,64}")


def person(cookie: str | None, signed_in: Mapping[str, object] | None = None) -> str | None:
    """The name under which somebody owns things: that of the signed-in person, else the one in the browser's cookie.

    signed_in: what the sign-in says, checked by who asks; `iss` and `sub` name a person. A cookie can never hold the
    name of a signed-in person: that has a colon.
    """
    if signed_in and signed_in.get("is_logged_in") and signed_in.get("sub"):
        text = json.dumps([str(signed_in.get("iss", "")), str(signed_in["sub"])])
        return "oidc:" + hashlib.sha256(text.encode()).hexdigest()
    return cookie if isinstance(cookie, str) and BROWSER.fullmatch(cookie) else None


@dataclass(frozen=True, eq=False)
class Opened:
    """An analysis or study with its entry as it is now."""

    analysis: Analysis | Study
    entry: Entry
    ships: bool = False  # comes with Headwater, under a name that the next version may give to another file

    @property
    def private(self) -> bool:
        """Whether its answers must be kept out of shared caches."""
        return self.entry.visibility == "private"


class Shelf:
    """The own library and the bundled one, side by side. One per process and data folder."""

    def __init__(self, folder: Path, bundled: Path | None = None) -> None:
        self.own = Library(folder, read_only=READ_ONLY.text() == "1", quota_mb=max(0, QUOTA_MB.integer()))
        self.bundled = Library(bundled or bundled_folder(), read_only=True)

    @cached_property
    def bundled_ids(self) -> frozenset[str]:
        """The fixed ids of what ships."""
        return frozenset(entry.id for entry in self.bundled.list())

    def library_of(self, id: str) -> Library:
        """The library that holds an id."""
        return self.bundled if id in self.bundled_ids else self.own

    def entries(self, owner: str | None) -> list[Entry]:
        """What this person finds: own, listed and nobody's entries, newest first, then the bundled ones by title."""
        own = [entry for entry in self.own.list() if finds(entry, owner)]
        return own + sorted(self.bundled.list(), key=lambda entry: entry.title)

    def entry(self, id: str, owner: str | None = None) -> Entry:
        """One entry; NotFound where there is none, and in the same words where there is none for this person."""
        try:
            entry = self.library_of(id).entry(id)
        except NotFound:
            raise ids.missing(id) from None
        if not may_see(entry, owner):
            raise ids.missing(id)
        return entry

    def head_marks(self, id: str, owner: str | None = None) -> dict[tuple[str, int, int], HeadMark]:
        """(kind, layer, head) -> label, note and pin that somebody gave to a head of this analysis."""
        self.entry(id, owner)
        return marks(self.library_of(id).details(id).heads)

    def mark_head(
        self,
        id: str,
        kind: str,
        layer: int,
        head: int,
        *,
        owner: str | None = None,
        label: str | None = None,
        note: str | None = None,
        pinned: bool | None = None,
    ) -> HeadMark:
        """Changes label, note or pin of one head; None leaves it, "" takes it away. Refused unless one may change the
        entry, NotFound for a head that does not exist, StoreError for what ships with Headwater."""
        found = self.open(id, owner)
        if not may_change(found.entry, owner):
            raise Refused("Only who ran this analysis may label its heads. Export it and import it to label a copy.")
        there = map_sizes(found.analysis).get(kind, {}).get(layer)
        if there is None or not 0 <= head < there.heads:
            raise NotFound(f"There is no head {layer}.{head} of kind {kind!r} in this analysis.")
        old = self.head_marks(id, owner).get((kind, layer, head), HeadMark())
        new = old.with_changes(label, note, pinned)
        self.library_of(id).update(id, heads={name_of(kind, layer, head): new.stored()})
        return new

    def take_in(self, path: Path, owner: str | None, visibility: str = "link") -> str:
        """Imports a file for a person; its id. Refused where they would have imported more than they may."""
        most = UPLOAD_MB.integer()
        mine = sum(entry.bytes for entry in self.own.list() if entry.imported and entry.owner == owner)
        total = (mine + path.stat().st_size) / 1e6
        if most and total > most:
            raise Refused(f"With this file you would have imported {total:,.0f} MB; at most {most:,} MB are taken.")
        return self.own.import_file(path, owner=owner, visibility=visibility)

    def open(self, id: str, owner: str | None = None) -> Opened:
        """Opens by id; NotFound as `entry` says, Damaged or NewerFile where the file cannot be read."""
        entry = self.entry(id, owner)
        library = self.library_of(id)
        return Opened(library.open(id), entry, ships=library is self.bundled)


def may_see(entry: Entry, owner: str | None) -> bool:
    """Whether this person may see an entry."""
    return entry.visibility != "private" or (owner is not None and entry.owner == owner)


def finds(entry: Entry, owner: str | None) -> bool:
    """Whether an entry is in this person's lists. What is shared by its link is found by its link."""
    return may_see(entry, owner) and (entry.visibility == "listed" or entry.owner in (None, owner))


def may_change(entry: Entry, owner: str | None) -> bool:
    """Whether this person may rename, tag, hide or delete an entry: who ran it may; what nobody owns, who sees it."""
    return may_see(entry, owner) and entry.owner in (None, owner)

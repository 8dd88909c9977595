"""What a library holds, listed quickly: one entry per folder, remembered between scans and between processes.

A change to an entry (published, deleted, retitled) replaces a file in its folder, which changes the folder's time; so
a scan asks every folder for its time and reads again only those that changed. The index file is a cache: without it
everything is read from the entries themselves.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, fields
from pathlib import Path

from backend.errors import HeadwaterError
from backend.store import files, ids, sidecar

INDEX = "index.json"
INDEX_VERSION = 3
RACY = 2_000_000_000  # ns: a folder changed this recently may change again within the same tick of its clock
SEARCHED = 500  # characters of the prompt that a search looks at
WORTH_WRITING = 32  # changed entries before the index is written again


@dataclass(frozen=True)
class Entry:
    """One analysis or study in a list."""

    id: str
    title: str
    model: str
    created_at: str  # UTC, ISO 8601
    n_tokens: int
    n_layers: int
    bytes: int
    tags: tuple[str, ...]
    pinned: bool
    visibility: str
    type: str  # "analysis" or "study"
    owner: str | None = None
    notes: str = ""
    prompt: str = ""  # its beginning, for search
    cache_key: str | None = None
    imported: bool = False
    study: str | None = None  # name of the definition that made a study
    made_of: tuple[str, ...] = ()  # ids of the entries it was made of


NAMES = tuple(field.name for field in fields(Entry))
SUMMARY = ("model", "created_at", "n_tokens", "n_layers", "type", "cache_key", "study")


def summary_of(info: dict, size: int) -> dict[str, object]:
    """The facts of a file that a list shows."""
    prompt = " ".join(sidecar.prompt_text(info).split())[:SEARCHED]
    facts = {name: info.get(name) for name in SUMMARY} | {"prompt": prompt, "bytes": size}
    return {name: value for name, value in facts.items() if value is not None}


def entry_of(id: str, content: sidecar.Sidecar) -> Entry:
    """Sidecar and summary as an entry; facts of a wrong type count as missing."""
    facts = {}
    for item in fields(Entry):
        value = content.summary.get(item.name)
        if item.name in ("n_tokens", "n_layers", "bytes"):
            facts[item.name] = value if isinstance(value, int) else 0
        elif item.name in ("model", "created_at", "prompt"):
            facts[item.name] = value if isinstance(value, str) else ""
    kind = content.summary.get("type")
    key, study = content.summary.get("cache_key"), content.summary.get("study")
    return Entry(
        id=id,
        title=content.title or id,
        tags=content.tags,
        pinned=content.pinned,
        visibility=content.visibility,
        owner=content.owner,
        notes=content.notes,
        imported=content.imported,
        made_of=content.made_of,
        type=kind if kind in ("analysis", "study") else "analysis",
        cache_key=key if isinstance(key, str) else None,
        study=study if isinstance(study, str) else None,
        **facts,
    )


class Index:
    """The entries of one folder of analyses, as this process knows them. Thread-safe."""

    def __init__(self, analyses: Path, index: Path | None) -> None:
        """index: where the cache lives; None where nothing may be written."""
        self._analyses = analyses
        self._index = index
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, Entry | None]] | None = None  # folder -> (its time, entry)

    def entries(self, read) -> dict[str, Entry]:
        """id -> entry, scanned now. read(id) gives the entry of a folder, or None where it holds none."""
        with self._lock:
            if self._known is None:
                self._known = self._load()
            now = time.time_ns()
            fresh: dict[str, tuple[int, Entry | None]] = {}
            changed = 0
            for name, stamp in self._folders():
                old = self._known.get(name)
                if old is not None and old[0] == stamp:
                    fresh[name] = old
                    continue
                # A time this close to now, or in the future, is not trusted to show the next change.
                fresh[name] = (stamp if stamp < now - RACY else -1, read(name))
                changed += 1
            changed += len(self._known.keys() - fresh.keys())
            self._known = fresh
            if changed >= max(WORTH_WRITING, len(fresh) // 20):
                self._save()
            return {name: entry for name, (_, entry) in fresh.items() if entry is not None}

    def _folders(self) -> list[tuple[str, int]]:
        try:
            with os.scandir(self._analyses) as found:
                return [(item.name, item.stat().st_mtime_ns) for item in found if ids.is_id(item.name)]
        except FileNotFoundError:
            return []

    def _load(self) -> dict[str, tuple[int, Entry | None]]:
        if self._index is None:
            return {}
        try:
            content = json.loads(self._index.read_text("utf-8"))
            if content["version"] != INDEX_VERSION:
                return {}
            lists = NAMES.index("tags"), NAMES.index("made_of")
            known: dict[str, tuple[int, Entry | None]] = {}
            for name, (stamp, values) in content["entries"].items():
                if values is not None:
                    for at in lists:
                        values[at] = tuple(values[at])
                known[name] = (stamp, values and Entry(*values))
            return known
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            return {}  # a cache that cannot be read is built again from the entries

    def _save(self) -> None:
        if self._index is None or self._known is None:
            return
        entries = {
            name: (stamp, entry and [getattr(entry, field) for field in NAMES])
            for name, (stamp, entry) in self._known.items()
        }
        try:
            text = json.dumps({"version": INDEX_VERSION, "entries": entries})
            files.write_text(self._index, text, durable=False)
        except OSError:
            self._index = None  # a folder that cannot be written is still listed, from memory


SORTS = ("created_at", "title", "model", "n_tokens", "bytes")


def chosen(
    entries: list[Entry],
    *,
    search: str | None = None,
    tags: tuple[str, ...] | list[str] = (),
    type: str | None = None,
    model: str | None = None,
    pinned: bool | None = None,
    sort: str = "created_at",
    descending: bool = True,
) -> list[Entry]:
    """The entries that fit, in order. search: every word occurs in title, model, tags, notes or prompt."""
    if sort not in SORTS:
        raise HeadwaterError(f"sort: expected one of {', '.join(SORTS)}, got {sort!r}.")
    words = (search or "").casefold().split()

    def fits(entry: Entry) -> bool:
        if (type is not None and entry.type != type) or (model is not None and entry.model != model):
            return False
        if (pinned is not None and entry.pinned != pinned) or not set(tags) <= set(entry.tags):
            return False
        if not words:
            return True
        text = " ".join((entry.title, entry.model, *entry.tags, entry.notes, entry.prompt)).casefold()
        return all(word in text for word in words)

    def order(entry: Entry):
        value = getattr(entry, sort)
        return (value.casefold() if isinstance(value, str) else value, entry.id)

    return sorted(filter(fits, entries), key=order, reverse=descending)

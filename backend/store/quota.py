"""The quota of a library: when its files take more, the analyses that are in it for the longest go, and it is told.

Never one that is pinned, open in any process, or the last one that a process saved; never a study, which is small and
took many runs. What ships with Headwater is in a library of its own.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from backend.errors import HeadwaterError
from backend.store import files

if TYPE_CHECKING:
    from backend.store.library import Library

TOLD = "evicted.json"  # what was evicted and not yet told to whom it belonged
LOCK = "quota.lock"
MOST_TOLD = 200
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evicted:
    """One analysis that went to keep the quota."""

    id: str
    title: str
    bytes: int
    owner: str | None


def keep(library: Library, most_bytes: int) -> list[Evicted]:
    """Evicts until the library takes at most so many bytes, or nothing is left that may go. One process at a time."""
    gone: list[Evicted] = []
    with FileLock(library.path / LOCK, timeout=60):
        entries = library.list()
        used = sum(entry.bytes for entry in entries)
        if used <= most_bytes:
            return gone
        for id in _oldest_first(library, [entry.id for entry in entries if entry.type == "analysis"]):
            if used <= most_bytes:
                break
            try:
                entry = library.entry(id)  # as it is now: it may have been pinned meanwhile
                if not entry.pinned and library.evict(id):
                    used -= entry.bytes
                    gone.append(Evicted(id, entry.title, entry.bytes, entry.owner))
            except HeadwaterError as error:
                log.warning("analysis %s was not evicted: %s", id, error)
        if gone:
            _write(library.path, [*_read(library.path), *gone][-MOST_TOLD:])
            log.info("evicted to keep the quota: %s", ", ".join(one.id for one in gone))
    return gone


def take_told(library: Library, owner: str | None = None) -> list[Evicted]:
    """What of this owner, or of nobody, was evicted since the last time this was asked; told once."""
    path = library.path
    if library.read_only or not (path / TOLD).exists():
        return []
    with FileLock(path / LOCK, timeout=60):
        found = _read(path)
        mine = [one for one in found if one.owner in (None, owner)]
        if mine:
            _write(path, [one for one in found if one not in mine])
    return mine


def _oldest_first(library: Library, ids: list[str]) -> list[str]:
    """By the time at which they came into this library, which an imported file cannot choose."""
    times = {}
    for id in ids:
        try:
            times[id] = (library.folder(id) / files.FILE).stat().st_mtime_ns
        except OSError:  # deleted meanwhile
            continue
    return sorted(times, key=times.__getitem__)


def _read(path: Path) -> list[Evicted]:
    try:
        values = json.loads((path / TOLD).read_text("utf-8"))
        return [Evicted(**{item.name: value[item.name] for item in fields(Evicted)}) for value in values]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        log.warning("the list of what was evicted cannot be read and is begun anew: %s", error)
        return []


def _write(path: Path, told: list[Evicted]) -> None:
    files.write_text(path / TOLD, json.dumps([asdict(one) for one in told]), durable=False)

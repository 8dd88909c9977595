"""Who owns an entry and who may see it, so that a lost or damaged entry.json never opens what was private.

entry.json says it; access.json, a second small file, repeats it; and the analysis file holds the visibility that it was
saved with. The owner's name is not in that file: it opens private analyses, and the file is handed on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from backend.errors import HeadwaterError
from backend.store import files

FILE = "access.json"
VISIBILITIES = ("private", "link", "listed")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Access:
    """One person, or nobody, and who else."""

    visibility: str
    owner: str | None
    imported: bool = False
    made_of: tuple[str, ...] = ()  # ids of what it was made of: as private as they are


NOBODY = Access("private", None, imported=True)  # an unknown origin is no answer to a run either


def from_dict(values: object) -> Access | None:
    """None where the values do not say it."""
    if not isinstance(values, dict) or values.get("visibility") not in VISIBILITIES:
        return None
    owner, imported = values.get("owner"), values.get("imported", False)
    made_of = values.get("made_of", [])
    if not isinstance(owner, str | None) or not isinstance(imported, bool) or not isinstance(made_of, list):
        return None
    if not all(isinstance(id, str) for id in made_of):
        return None
    return Access(values["visibility"], owner, imported, tuple(made_of))


def write(folder: Path, content: Access) -> None:
    """Replaces the file where it says something else."""
    if _read(folder) != content:
        files.write_text(folder / FILE, json.dumps(asdict(content)))


def kept(folder: Path, *, damaged: bool, info: Callable[[], dict]) -> Access:
    """What is known without entry.json. damaged: it is there and cannot be read."""
    second = _read(folder)
    if second is not None:
        return second
    if not damaged and not (folder / FILE).exists():  # both are lost, or the file was put here by hand
        try:
            facts = info()
        except (HeadwaterError, OSError):
            facts = {}
        visibility = facts.get("visibility")
        if facts.get("id") == folder.name and visibility in VISIBILITIES:
            return Access(visibility, None)
    log.warning(
        "Who may see analysis %s is not known any more (entry.json and access.json): it is private and nobody's. If it "
        "may be seen, run Library(<data folder>).update(%r, visibility='link').",
        folder.name,
        folder.name,
    )
    return NOBODY


def _read(folder: Path) -> Access | None:
    try:
        return from_dict(json.loads((folder / FILE).read_text("utf-8")))
    except (OSError, ValueError, RecursionError):
        return None

"""What was made of a private entry is private too: whoever made it sees it, and nobody else does.

An entry knows the ids of everything it was made of (`made_of`): a study the analysis beside which it was started, an
analysis that a study kept both of them. The rule looks at those entries as they are now, so that an analysis made
private hides what was made of it before, and shared again shows it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from backend.errors import HeadwaterError
from backend.store.entries import Entry

if TYPE_CHECKING:
    from backend.store.library import Library

Find = Callable[[str], Entry | None]  # id -> the entry as its own files say, None where there is none


def seen(entry: Entry, find: Find) -> Entry:
    """The entry with the visibility that holds: private where anything it was made of is."""
    return replace(entry, visibility="private") if made_of_private(entry, find) else entry


def made_of_private(entry: Entry, find: Find) -> bool:
    """Whether something that this was made of is there and private."""
    return any(source is not None and source.visibility == "private" for source in map(find, entry.made_of))


def check_opening(entry: Entry, visibility: str | None, find: Find) -> None:
    """Refuses to share what was made of something private."""
    if visibility not in (None, "private") and made_of_private(entry, find):
        raise HeadwaterError(
            "This was made of a private analysis and is as private as that one. Let others see the analysis first."
        )


def seal(library: Library, id: str) -> None:
    """A private entry is about to go: what was made of it stays private on its own account."""
    if library.entry(id).visibility == "private":
        for entry in library.list():
            if id in entry.made_of:
                library.update(entry.id, visibility="private")

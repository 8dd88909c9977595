"""Opens what an address names: the shelf of this process, the person's cookie, an analysis and its outline."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

import streamlit as st

from backend import statistics
from backend.errors import Damaged, HeadwaterError, NewerFile, NotFound
from backend.map_sizes import map_sizes
from backend.settings import data_folder
from backend.shelf import OWNER_COOKIE, Opened, Shelf, person
from backend.store import Analysis, Library, Study
from pages.shared.view_state import Outline, ViewState

TIDY_AFTER = 90.0  # seconds: the library only removes folders that have not been touched for a minute
TRIED = 20  # analyses that are opened to find one that can be read


def shelf() -> Shelf:
    """The shelf of this process."""
    return _shelf(data_folder())


@st.cache_resource(show_spinner=False)
def _shelf(folder: Path) -> Shelf:
    found = Shelf(folder)
    tidy = Timer(TIDY_AFTER, _tidy, (found.own,))
    tidy.daemon = True
    tidy.start()
    return found


def _tidy(library: Library) -> None:
    """Removes what a killed process left half written, and what was deleted long ago."""
    with suppress(OSError, HeadwaterError):
        library.clean_up()


def owner() -> str | None:
    """Who is at the screen: the signed-in person, else the random name of the browser; None before that is set."""
    return person(st.context.cookies.get(OWNER_COOKIE), st.user.to_dict() if signs_in() else None)


@st.cache_resource(show_spinner=False)
def signs_in() -> bool:
    """Whether people can sign in here: Streamlit's OpenID Connect is configured."""
    try:
        return "auth" in st.secrets
    except FileNotFoundError:  # there is no file of secrets
        return False


def open_for(state: ViewState, prefers: Callable[[Analysis], bool] | None = None) -> tuple[Opened | None, list[str]]:
    """The analysis of an address, else a bundled or the newest one, None where there is none; and what to say.

    prefers: of the bundled ones that may stand in, the first of which this is true comes first."""
    notices: list[str] = []
    if state.analysis is not None:
        try:
            return _with_maps(state.analysis), []
        except (NotFound, Damaged, NewerFile) as error:
            notices.append(str(error))
    bundled = shelf().bundled_ids
    entries = [entry for entry in shelf().entries(owner()) if entry.type == "analysis"]
    member = _member_for(state, {entry.id for entry in entries})
    candidates = [entry.id for entry in sorted(entries, key=lambda entry: entry.id not in bundled)[:TRIED]]
    if prefers is not None and member is None:
        preferred = _preferred(tuple(id for id in candidates if id in bundled), prefers, prefers.__name__)
        candidates.sort(key=lambda id: id != preferred)
    for id in [member, *candidates] if member is not None else candidates:
        try:
            found = _with_maps(id)
        except (NotFound, Damaged, NewerFile):
            continue
        if id == member:
            return found, [*notices, "The first analysis of the study is shown."]
        which = "A bundled" if id in bundled else "The newest"
        return found, [*notices, f"{which} analysis is shown; choose another in the list on the left."]
    return None, notices


@st.cache_data(show_spinner=False)
def _preferred(bundled: tuple[str, ...], _prefers: Callable[[Analysis], bool], name: str) -> str | None:
    """The first bundled analysis that a page prefers; these never change while the process runs."""
    for id in bundled:
        with suppress(NotFound, Damaged, NewerFile):
            if _prefers(_with_maps(id).analysis):
                return id
    return None


def _member_for(state: ViewState, there: set[str]) -> str | None:
    """The first analysis out of `there` that the study of an address kept, whichever parameter names the study."""
    for id in (state.study, state.analysis):
        if id is None:
            continue
        with suppress(NotFound, Damaged, NewerFile):
            members = open_study(id).info.get("members", [])
            if (member := next((one for one in members if one in there), None)) is not None:
                return member
    return None


def _with_maps(id: str) -> Opened:
    """An analysis of which at least the sizes of its maps can be read: without them a page has nothing to show."""
    found = shelf().open(id, owner())
    if not isinstance(found.analysis, Analysis):
        raise NotFound("The link leads to a study, which has no maps of its own.")
    outline(found.analysis)
    return found


def kept_by_study(state: ViewState, analysis: str) -> bool:
    """Whether the address names a study and this is the analysis that is shown for it."""
    return _member_for(state, {analysis}) is not None


def open_study(id: str) -> Study:
    """A study that this person may see; NotFound, Damaged or NewerFile with a sentence otherwise."""
    found = shelf().open(id, owner()).analysis
    if not isinstance(found, Study):
        raise NotFound("The link leads to an analysis, not to a study; it is shown on the page Heads.")
    return found


def beside(id: str | None) -> dict[str, Any]:
    """visibility and made_of of what is made from an entry: as private as that is, now and later."""
    if not id:
        return {"visibility": "link", "made_of": ()}
    entry = shelf().entry(id, owner())
    private = "private" if entry.visibility == "private" else "link"
    return {"visibility": private, "made_of": () if id in shelf().bundled_ids else (id, *entry.made_of)}


def outline(analysis: Analysis) -> Outline:
    """What of the analysis an address can name."""
    return Outline(sites=map_sizes(analysis), measures=frozenset(statistics.all()))

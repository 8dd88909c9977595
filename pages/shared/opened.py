"""Opens what an address names: the shelf of this process, the person's cookie, an analysis and its outline."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from backend import statistics
from backend.errors import Damaged, NewerFile, NotFound
from backend.map_sizes import map_sizes
from backend.settings import data_folder
from backend.shelf import OWNER_COOKIE, Opened, Shelf
from backend.store import Analysis, Study
from pages.shared.view_state import Outline, ViewState


def shelf() -> Shelf:
    """The shelf of this process."""
    return _shelf(data_folder())


@st.cache_resource(show_spinner=False)
def _shelf(folder: Path) -> Shelf:
    return Shelf(folder)


def owner() -> str | None:
    """The random name of this browser, which owns what it ran; None before the cookie is set."""
    return st.context.cookies.get(OWNER_COOKIE)


def open_for(state: ViewState) -> tuple[Opened | None, list[str]]:
    """The analysis of an address, else a bundled or the newest one, None where there is none; and what to say."""
    notices: list[str] = []
    if state.analysis is not None:
        try:
            found = shelf().open(state.analysis, owner())
            if isinstance(found.analysis, Analysis):
                return found, []
            notices.append("The link leads to a study, which has no maps of its own.")
        except (NotFound, Damaged, NewerFile) as error:
            notices.append(str(error))
    entries = [entry for entry in shelf().entries(owner()) if entry.type == "analysis"]
    member = _first_member(state.study, {entry.id for entry in entries})
    if member is not None:
        return shelf().open(member, owner()), [*notices, "The first analysis of the study is shown."]
    bundled = [entry for entry in entries if entry.id in shelf().bundled_ids]
    if not entries:
        return None, notices
    which = "A bundled" if bundled else "The newest"
    notices.append(f"{which} analysis is shown; choose another in the list on the left.")
    return shelf().open((bundled or entries)[0].id, owner()), notices


def _first_member(study: str | None, there: set[str]) -> str | None:
    """An analysis that the study of an address kept, where it is still there."""
    if study is None:
        return None
    try:
        return next((id for id in open_study(study).info.get("members", []) if id in there), None)
    except (NotFound, Damaged, NewerFile):
        return None


def open_study(id: str) -> Study:
    """A study that this person may see; NotFound, Damaged or NewerFile with a sentence otherwise."""
    found = shelf().open(id, owner()).analysis
    if not isinstance(found, Study):
        raise NotFound("The link leads to an analysis, not to a study; it is shown on the page Heads.")
    return found


def outline(analysis: Analysis) -> Outline:
    """What of the analysis an address can name."""
    return Outline(sites=map_sizes(analysis), measures=frozenset(statistics.all()))

"""The panel of a study: the file of this folder that has the study's name.

It defines parameters() -> what was chosen, fitted(state, study) -> the nearest view and notices, result(state, study).
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from backend.studies import all as all_studies

FOLDER = "pages.shared.panels"


def panel_of(study: str) -> ModuleType | None:
    """None for a study that has no panel or is not known here, such as one of an imported file."""
    if study not in all_studies() or find_spec(f"{FOLDER}.{study}") is None:
        return None
    return import_module(f"{FOLDER}.{study}")

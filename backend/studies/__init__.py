"""The shelf of studies: one file per study, the folder is the registry.

To add one, add a file that defines `STUDY`, an instance of a subclass of StudyDefinition. Its name is the file's name.
What it declares is stored like an analysis and opened by the same library.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from backend.studies.definition import StudyDefinition
from backend.studies.running import discard_study, resume_study, run_study
from backend.studies.workplace import unfinished

__all__ = ["StudyDefinition", "all", "discard_study", "resume_study", "run_study", "unfinished"]

HELPERS = {"definition", "refusals", "running", "words", "workplace"}


@cache
def _shelf() -> dict[str, StudyDefinition]:
    names = sorted(module.name for module in iter_modules(__path__) if module.name not in HELPERS)
    return {name: import_module(f"{__name__}.{name}").STUDY for name in names}


def all() -> dict[str, StudyDefinition]:
    """Every study by name, in alphabetical order."""
    return dict(_shelf())

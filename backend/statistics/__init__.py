"""The shelf of statistics: one file per statistic, the folder is the registry.

To add one, add a file that defines `STATISTIC` and its heading in docs/methods.md. Its name is the file's name, and a
column of that name appears in the table `heads`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from backend.statistics.statistic import Statistic

__all__ = ["Statistic", "all"]

HELPERS = {"statistic"}


@cache
def _shelf() -> dict[str, Statistic]:
    names = sorted(module.name for module in iter_modules(__path__) if module.name not in HELPERS)
    return {name: import_module(f"{__name__}.{name}").STATISTIC for name in names}


def all() -> dict[str, Statistic]:
    """Every statistic by name, in alphabetical order."""
    return dict(_shelf())

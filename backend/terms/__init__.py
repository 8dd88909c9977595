"""The words of the pages: one file per page, the folder is the registry.

To add one, write it into the `TERMS` of the page's file, name -> Term. A name is used once in the whole folder and is
no statistic's: the glossary shows both in one list.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from backend.terms.term import Term

__all__ = ["Term", "all"]

HELPERS = {"term"}


@cache
def _words() -> dict[str, Term]:
    words: dict[str, Term] = {}
    for module in iter_modules(__path__):
        if module.name in HELPERS:
            continue
        terms = import_module(f"{__name__}.{module.name}").TERMS
        twice = words.keys() & terms.keys()
        if twice:
            raise ValueError(f"backend/terms/{module.name}.py defines {sorted(twice)}, which another page defines too.")
        words |= terms
    return dict(sorted(words.items()))


def all() -> dict[str, Term]:
    """Every term by name, in alphabetical order."""
    return dict(_words())

"""The pages, as the menu lists them: the folder is the registry."""

from __future__ import annotations

from pathlib import Path

PAGES = Path(__file__).resolve().parent.parent
ORDER = ("heads", "sinks", "basins", "sparsity", "studies", "lessons", "sql", "glossary")  # the others follow by name
CAPITALS = {"sql": "SQL"}


def menu() -> list[tuple[str, str]]:
    """(name, title) of every page in the folder, in the order of the menu."""
    names = [path.stem for path in PAGES.glob("*.py") if not path.name.startswith(("_", "."))]
    names.sort(key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    return [(name, CAPITALS.get(name, name.replace("_", " ").capitalize())) for name in names]

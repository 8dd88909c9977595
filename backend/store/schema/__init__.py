"""The tables of an analysis file, in numbered files found by listing this folder.

`vNNN_<what changed>.py` defines TABLES, the columns of every table as that version writes them, and from version 2 on
FROM_PREVIOUS: for each table that changed, the SELECT that shows a table of the version before as one of this version,
with {table} standing for the older one. Old files are only ever read through such views; they are never touched.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from types import ModuleType

from backend.errors import NewerFile

MODULE = re.compile(r"v(\d{3})_[a-z0-9_]+")
PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")  # of a statistic, and of tables and columns of a study
MAPS_TABLE = re.compile(r"maps_\d{1,5}")


@cache
def versions(package: str = __name__) -> dict[int, ModuleType]:
    """number -> module, ascending and without gaps from 1."""
    path = importlib.import_module(package).__path__
    found = {
        int(match[1]): importlib.import_module(f"{package}.{module.name}")
        for module in pkgutil.iter_modules(path)
        if (match := MODULE.fullmatch(module.name))
    }
    if sorted(found) != list(range(1, len(found) + 1)):
        raise RuntimeError(f"{package}: expected versions numbered 1, 2, 3 ..., found {sorted(found)}.")
    return dict(sorted(found.items()))


def current(package: str = __name__) -> int:
    """The version that is written."""
    return max(versions(package))


def tables(package: str = __name__) -> dict[str, dict[str, str]]:
    """table -> column -> SQL type, of the current version."""
    return versions(package)[current(package)].TABLES


def maps_columns(package: str = __name__) -> dict[str, str]:
    """Column -> SQL type of a table of arrays."""
    return versions(package)[current(package)].MAPS


def maps_table(number: int) -> str:
    """Name of such a table, from 0."""
    return f"maps_{number}"


def is_maps_table(name: object) -> bool:
    """Whether this is the name of a table of arrays."""
    return isinstance(name, str) and MAPS_TABLE.fullmatch(name) is not None


def create_statement(table: str, columns: dict[str, str]) -> str:
    """The names are the project's own, never those of a user."""
    body = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    return f'CREATE TABLE "{table}" ({body})'


def check_version(found: int, package: str = __name__) -> None:
    """NewerFile where this Headwater is older than the file."""
    if found > current(package):
        raise NewerFile(
            f"This file has schema version {found}; this Headwater reads versions up to {current(package)}. "
            "Update Headwater, or ask the sender for the tables as Parquet or CSV. The file was not touched."
        )


def reading_views(found: int, database: str, package: str = __name__) -> list[str]:
    """Statements that let a connection see an older file as one of the current version; none for a current one.

    The views are temporary: they live in the connection, and hide the tables of the same name in the file.
    """
    names: dict[str, str] = {}
    statements = []
    for number, version in versions(package).items():
        if number <= found:
            continue
        for table, select in version.FROM_PREVIOUS.items():
            older = names.get(table, f'"{database}".main."{table}"')
            names[table] = f'temp."{table}@{number}"'
            statements.append(f"CREATE TEMP VIEW {names[table][5:]} AS {select.format(table=older)}")
    return statements + [f'CREATE TEMP VIEW "{table}" AS SELECT * FROM {name}' for table, name in names.items()]

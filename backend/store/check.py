"""The check of a finished file before it gets its name: everything is there, every blob has its checksum."""

from __future__ import annotations

from pathlib import Path

import duckdb

from backend.errors import Damaged
from backend.store import database
from backend.store.blobs import checksum
from backend.store.schema import is_maps_table

AT_ONCE = 32  # arrays in memory


def check_file(path: Path, counts: dict[str, int] | None = None) -> None:
    """Damaged where a table does not hold the rows it was given or a blob has changed. counts: table -> rows."""
    connection = database.reading(path)
    try:
        found = {
            name: connection.execute(f'SELECT count(*) FROM {database.NAME}."{name}"').fetchone()[0]
            for name in counts or ()
        }
        if counts is not None and found != counts:
            raise Damaged(f"The file just written has other row counts than were written: {found} instead of {counts}.")
        bad = damaged_blobs(connection)
    except duckdb.Error as error:
        raise Damaged(f"The file just written cannot be read back ({database.first_line(error)}).") from error
    finally:
        connection.close()
    if bad:
        raise Damaged(f"The file just written has damaged arrays: {', '.join(bad[:5])}.")


def damaged_blobs(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Names of the arrays that no longer have their checksum, over all layers."""
    bad = []
    for name in maps_tables(connection):
        found = connection.execute(f'SELECT part, kind, layer, head, checksum, data FROM {database.NAME}."{name}"')
        while arrays := found.fetchmany(AT_ONCE):  # hashlib takes half the time of DuckDB's own sha256
            bad += [
                f"{part} of {kind} {layer}.{head}"
                for part, kind, layer, head, written, data in arrays
                if written is None or data is None or checksum(data) != written
            ]
    return bad


def maps_tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The tables of arrays."""
    query = "SELECT table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY table_name"
    return [name for (name,) in connection.execute(query, [database.NAME]).fetchall() if is_maps_table(name)]

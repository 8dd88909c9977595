"""What a file from elsewhere may cost before anything in it is believed: its kind, its sizes, the time of its check."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from backend.errors import Damaged, Refused
from backend.settings import IMPORT_MB
from backend.store import database

MAGIC = slice(8, 12), b"DUCK"  # where a DuckDB file says that it is one
LONGEST_CHECK = 120.0  # seconds
MOST_ROWS = 200_000_000  # of all tables together
LARGEST_TEXTS = 64_000_000  # bytes of all texts of a table; equal ones take no room in the file
EXPANSION = 1_000_000  # bytes by which arrays may exceed the file: Headwater stores them as they are


def check_kind(path: Path) -> None:
    """Refused for what is no DuckDB file, or larger than an import may be; the rest of it is not looked at."""
    size, most = path.stat().st_size, IMPORT_MB.integer()
    if size > most * 1_000_000:
        raise Refused(
            f"This file was not imported: it has {size / 1e6:,.0f} MB and at most {most:,} MB are taken "
            "(HEADWATER_IMPORT_MB)."
        )
    with path.open("rb") as file:
        beginning = file.read(16)
    where, magic = MAGIC
    if beginning[where] != magic:
        raise Damaged(
            "This file was not imported: it is no DuckDB file. Give an analysis as Headwater exports it (.duckdb), not "
            "packed and not converted."
        )


@contextmanager
def stopped(connection: duckdb.DuckDBPyConnection, seconds: float = LONGEST_CHECK) -> Iterator[None]:
    """Ends what runs inside it after so long."""
    over = threading.Event()

    def stop() -> None:
        over.set()
        connection.interrupt()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except duckdb.Error as error:
        if not over.is_set():
            raise
        raise Refused(
            f"This file was not imported: its check took more than {seconds:.0f} s. Ask the sender for the tables as "
            "Parquet or CSV."
        ) from error
    finally:
        timer.cancel()


def check_sizes(connection: duckdb.DuckDBPyConnection, size: int) -> None:
    """Few bytes can say "the same a billion times": rows, texts and arrays are counted before they are read."""
    columns = connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = ? AND NOT internal",
        [database.NAME],
    ).fetchall()
    rows = 0
    for table in sorted({table for table, _, _ in columns}):
        rows += connection.execute(f"SELECT count(*) FROM {_name(table)}").fetchone()[0]
        expect(rows <= MOST_ROWS, f"at most {MOST_ROWS:,} rows", f"{rows:,}")
    arrays = 0
    for table, column, kind in columns:
        if kind == "BLOB":
            arrays += _bytes(connection, table, f"octet_length({_name(column)})")
            expect(arrays <= size + EXPANSION, f"arrays that fit into {size:,} bytes", f"{arrays:,} bytes")
        elif kind == "VARCHAR":
            texts = _bytes(connection, table, f"strlen({_name(column)})")
            expect(texts <= LARGEST_TEXTS, f"at most {LARGEST_TEXTS:,} bytes of texts", f"{texts:,}")
        elif kind.endswith("[]"):
            items = _bytes(connection, table, f"len({_name(column)})")
            expect(8 * items <= LARGEST_TEXTS, f"at most {LARGEST_TEXTS:,} bytes of lists", f"{8 * items:,}")


def _bytes(connection: duckdb.DuckDBPyConnection, table: str, length: str) -> int:
    return connection.execute(f"SELECT coalesce(sum({length}), 0)::BIGINT FROM {_name(table)}").fetchone()[0]


def _name(name: str) -> str:
    """A name out of the file, quoted: it may be anything."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def about(what: str) -> Iterator[None]:
    """Says where a Damaged was found."""
    try:
        yield
    except Damaged as error:
        raise Damaged(f"{what}: {error}") from None


def expect(right: object, expected: str, found: object) -> None:
    """Refused, with both, unless it is right."""
    if not right:
        raise Refused(
            f"This file was not imported: it is no analysis as Headwater writes it. Expected {expected}, "
            f"found {str(found)[:120]}."
        )

"""The two ways this project opens DuckDB: one that writes a new file, one that can only read a finished one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from backend.errors import Damaged, NewerFile, NotFound, StoreError

NAME = "analysis"  # the file's name inside a connection; paths never show
READER_MEMORY = "512MB"
WRITER_MEMORY = 512_000_000  # bytes; more than this spills into the folder of the analysis
# Bytes. With DuckDB's usual 262,144 an analysis of 50 tokens takes 16 MB; with less than this it packs no integers.
BLOCK_SIZE = 32_768
STORAGE = "v1.2.0"  # oldest DuckDB that can read our files
NO_EXTENSIONS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}

NO_PROGRESS_BAR = "SET enable_progress_bar = false"  # DuckDB draws one on standard output in a notebook


def writing(path: Path, spill: Path) -> duckdb.DuckDBPyConnection:
    """A new database file with an open transaction."""
    config = {
        "threads": 2,
        "memory_limit": f"{WRITER_MEMORY // 1_000_000}MB",
        "temp_directory": str(spill),
        **NO_EXTENSIONS,
    }
    try:
        connection = duckdb.connect(":memory:", config=config)
        connection.execute(NO_PROGRESS_BAR)
        connection.execute(f"ATTACH {quoted(path)} AS {NAME} (BLOCK_SIZE {BLOCK_SIZE}, STORAGE_VERSION '{STORAGE}')")
        connection.execute(f"USE {NAME}")
        # At commit everything goes into the file itself, not into a log first.
        connection.execute("SET checkpoint_threshold = '1KB'")
        connection.execute("SET preserve_insertion_order = true")
        connection.execute("BEGIN TRANSACTION")
    except duckdb.Error as error:
        raise store_error(error) from error
    return connection


def reading(path: Path) -> duckdb.DuckDBPyConnection:
    """A connection that can read this file and nothing else on the machine.

    The file is attached to a database in memory: other programs and other parts of this process may open it as they
    like. Nothing is written anywhere, so a read-only folder will do.
    """
    if not path.is_file():
        raise NotFound(f"There is no file {path.name} for this analysis. It may have been deleted.")
    config = {"threads": 2, "memory_limit": READER_MEMORY, "temp_directory": "", **NO_EXTENSIONS}
    connection = duckdb.connect(":memory:", config=config)
    try:
        connection.execute(NO_PROGRESS_BAR)
        connection.execute(f"ATTACH {quoted(path)} AS {NAME} (READ_ONLY)")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        connection.close()
        raise cannot_open(error) from error
    return connection


def cannot_open(error: duckdb.Error) -> Exception:
    """The reason why DuckDB does not open a file, in our words."""
    text = first_line(error)
    if "version" in text.lower() and "read" in text.lower():
        return NewerFile(
            f"This file was written by another DuckDB than the one installed here, {duckdb.__version__} ({text}). "
            "Update Headwater, or ask the sender for the tables as Parquet or CSV. The file was not touched."
        )
    return Damaged(
        f"The analysis file cannot be opened: it is no DuckDB file or its first blocks are damaged ({text})."
    )


def store_error(error: Exception) -> StoreError:
    """The disk did not take what was to be written."""
    return StoreError(
        f"The analysis could not be saved ({first_line(error)}). Free some disk space or choose another data folder "
        "with HEADWATER_DATA, and save again."
    )


@contextmanager
def moving(id: str) -> Iterator[None]:
    """Around the renames that delete or restore an entry: a data folder that does not let them is told in words."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"Analysis {id} is no longer there: somebody else deleted or restored it.") from None
    except OSError as error:
        raise StoreError(
            f"Analysis {id} stays where it is ({first_line(error)}). Make the data folder writable."
        ) from error


def quoted(path: Path) -> str:
    """The path as a literal of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def first_line(error: BaseException) -> str:
    """What the library said, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def is_damage(error: Exception) -> bool:
    """Whether DuckDB found a block that is not what was written, rather than a query that is wrong.

    Arrow hands DuckDB's errors on as OSError.
    """
    kinds = (duckdb.IOException, duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException)
    return isinstance(error, kinds) or "corrupt" in str(error).lower()

"""The two ways this project opens DuckDB: one that writes a new file, one that can only read a finished one."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
from filelock import Timeout

from backend.errors import Damaged, NewerFile, NotFound, StoreError, without_paths

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


def reading(path: Path, memory: str = READER_MEMORY) -> duckdb.DuckDBPyConnection:
    """A connection that can read this file and nothing else on the machine.

    The file is attached to a database in memory: other programs and other parts of this process may open it as they
    like. Nothing is written anywhere, so a read-only folder will do.
    """
    if not path.is_file():
        raise NotFound(f"There is no file {path.name} for this analysis. It may have been deleted.")
    config = {"threads": 2, "memory_limit": memory, "temp_directory": "", **NO_EXTENSIONS}
    connection = duckdb.connect(":memory:", config=config)
    try:
        connection.execute(NO_PROGRESS_BAR)
        connection.execute(f"ATTACH {quoted(path)} AS {NAME} (READ_ONLY, TYPE duckdb)")
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
    """Why the disk did not take what was to be written, and what to do. No place on the server is named."""
    what, advice = next(
        (words for kind, words in FAILURES.items() if kind(error)),
        (first_line(error), "Save again; if that fails too, the log of the server says more."),
    )
    return StoreError(f"The analysis could not be saved: {what.rstrip('.')}. {advice}")


def is_full(error: Exception) -> bool:
    """The disk, a quota or a limit on the size of files."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or _says(
        error, "no space left", "disk full", "quota exceeded", "file too large", "max_temp_directory_size"
    )


def is_forbidden(error: Exception) -> bool:
    """The folder or file may not be written."""
    codes = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR)
    return getattr(error, "errno", None) in codes or _says(error, "permission denied", "read-only", "not permitted")


def is_locked(error: Exception) -> bool:
    """Somebody else holds the file."""
    return isinstance(error, Timeout) or _says(error, "could not set lock", "conflicting lock", "being used by another")


def is_memory(error: Exception) -> bool:
    """There was not enough memory."""
    return isinstance(error, MemoryError | duckdb.OutOfMemoryException) or getattr(error, "errno", None) == errno.ENOMEM


def is_broken(error: Exception) -> bool:
    """What was written is not what is there, or the disk itself fails."""
    return getattr(error, "errno", None) == errno.EIO or _says(error, "corrupt", "checksum", "input/output error")


def _says(error: Exception, *words: str) -> bool:
    text = str(error).lower()
    return isinstance(error, OSError | duckdb.Error) and any(word in text for word in words)


FAILURES = {
    is_full: ("the disk is full", "Free some space or choose another data folder with HEADWATER_DATA, and save again."),
    is_forbidden: (
        "its folder cannot be written",
        "Make the data folder writable or choose another one with HEADWATER_DATA, and save again.",
    ),
    is_locked: ("another program holds its file", "Wait until that one is done, and save again."),
    is_memory: ("there was not enough memory to write it", "Close other programs or keep fewer exact maps."),
    is_broken: ("what was written could not be read back", "Check the disk of the data folder, and save again."),
}


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
    """What the library said, in one line, without places on this machine."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, OSError) and error.strerror:
        line = error.strerror  # its text ends with the name of the file
    return calm(without_paths(line)[:300])


def calm(text: str) -> str:
    """What a library says, without its exclamation marks; != stays."""
    return re.sub(r"!+(?=\s|$)", ".", text)


def is_damage(error: Exception) -> bool:
    """Whether DuckDB found a block that is not what was written, rather than a query that is wrong.

    Arrow hands DuckDB's errors on as OSError.
    """
    kinds = (duckdb.IOException, duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException)
    return isinstance(error, kinds) or "corrupt" in str(error).lower()

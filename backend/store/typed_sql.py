"""SQL that a person types on a page: checked, then answered in a process with limits on time, memory and rows."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from backend.errors import Refused, without_paths
from backend.settings import SQL_MB, SQL_ROWS, SQL_SECONDS
from backend.store import query, schema
from backend.store.connections import connections, stored_version
from backend.store.database import NAME, calm
from backend.store.reader import StoredFile

WORKER = Path(__file__).with_name("sql_worker.py")
AT_ONCE = 2  # queries of all people; the others wait
LARGEST_ANSWER = 256_000_000  # bytes
REFUSED = 3
_places = threading.BoundedSemaphore(AT_ONCE)


@dataclass(frozen=True)
class Limits:
    """What one query may take."""

    seconds: int = field(default_factory=lambda: max(1, SQL_SECONDS.integer()))
    megabytes: int = field(default_factory=lambda: max(64, SQL_MB.integer()))
    rows: int = field(default_factory=lambda: max(1, SQL_ROWS.integer()))


@dataclass(frozen=True, eq=False)
class Answer:
    """Rows of plain types under names that occur once each."""

    table: pa.Table
    cut: bool  # there are more rows than the limit
    seconds: float


@dataclass(frozen=True)
class Column:
    """One column of a table of the file."""

    name: str
    type: str


def tables(stored: StoredFile) -> dict[str, list[Column]]:
    """table -> columns, as a query sees them; the arrays are left out, which only a program can read."""
    with connections.cursor(stored.path) as cursor:
        rows = cursor.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = ? "
            "ORDER BY table_name, column_index",
            [NAME],
        ).fetchall()
    found: dict[str, list[Column]] = {}
    for table, column, kind in rows:
        if not schema.is_maps_table(table):
            found.setdefault(table, []).append(Column(column, kind))
    return found


def answer(stored: StoredFile, text: str, limits: Limits | None = None) -> Answer:
    """The rows. Refused, with the reason, for anything but one SELECT over this file within the limits."""
    limits = limits or Limits()
    begin = time.monotonic()
    with connections.cursor(stored.path) as cursor:
        query.allowed(cursor, text)
        views = schema.reading_views(stored_version(cursor), NAME)
    work = {"path": str(stored.path), "query": text, "views": views, **vars(limits)}
    if not _places.acquire(timeout=limits.seconds):
        raise Refused("Other people's queries are running. Run yours again in a moment.")
    try:
        table = _asked(work, limits)
    finally:
        _places.release()
    cut = table.num_rows > limits.rows
    return Answer(_plain(table.slice(0, limits.rows)), cut, time.monotonic() - begin)


def _asked(work: dict, limits: Limits) -> pa.Table:
    """Runs the worker, and ends it when it takes too long or says too much."""
    command = [sys.executable, "-I", str(WORKER)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={}, cwd="/"
    ) as process:
        stopped: list[str] = []

        def stop(why: str) -> None:
            stopped.append(why)
            process.kill()

        timer = threading.Timer(limits.seconds + 1.0, stop, [f"took more than {limits.seconds} s"])
        words: list[bytes] = []
        listener = threading.Thread(target=lambda: words.append(process.stderr.read(20_000)), daemon=True)
        timer.start()
        listener.start()
        try:
            with process.stdin as stdin:
                stdin.write(json.dumps(work).encode())
            content = process.stdout.read(LARGEST_ANSWER + 1)
            if len(content) > LARGEST_ANSWER:
                stop(f"gives more than {LARGEST_ANSWER // 1_000_000} MB")
            status = process.wait()
        except BrokenPipeError:
            content, status = b"", process.wait()
        finally:
            timer.cancel()
            process.kill()
    listener.join()
    if stopped:
        raise Refused(f"The query was stopped: it {stopped[0]}. Aggregate, filter, or add a LIMIT.")
    if status != 0:
        raise _refusal(status, b"".join(words), limits)
    return pa.ipc.open_stream(io.BytesIO(content)).read_all()


def _refusal(status: int, words: bytes, limits: Limits) -> Refused:
    """Why the worker gave no answer."""
    try:
        said = json.loads(words.decode("utf-8", "replace").strip().splitlines()[-1]) if status == REFUSED else {}
    except (ValueError, IndexError):
        said = {}
    if said.get("kind") == "query":
        line = (str(said.get("text", "")).strip().splitlines() or [""])[0]
        return Refused(f"The query cannot be answered: {calm(without_paths(line)[:300])}")
    return Refused(f"The query needs more than {limits.megabytes} MB of memory. Aggregate, filter, or add a LIMIT.")


def _plain(table: pa.Table) -> pa.Table:
    """Names once each; what is no number, text, truth, date or time is shown as text."""
    seen: Counter[str] = Counter()
    names, columns = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
        columns.append(column if _is_plain(column.type) else pa.array(_texts(column), pa.string()))
    return pa.table(columns, names=names)


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    is_one = (types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_date, types.is_timestamp)
    return any(test(kind) for test in is_one)


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    values = [value.hex() if isinstance(value, bytes) else value for value in column.to_pylist()]
    return [None if value is None else str(value) for value in values]

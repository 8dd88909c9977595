"""Answers one query in a process of its own, which may take so much memory and time and no more.

DuckDB's memory limit does not count the texts and lists that functions make: `repeat('x', 2_000_000_000)` would take
the server down with it. So what people type runs here; `typed_sql` starts this file by its path, hands it the work as
JSON on standard input and reads Arrow from standard output. It imports nothing that is slow to import.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import duckdb
import pyarrow as pa

PROJECT = Path(__file__).resolve().parents[2]
REFUSED = 3  # exit status: the sentence is on standard error
BATCH = 10_000  # rows
TOO_MUCH = ("out of memory", "failed to allocate", "could not allocate")


def limit(megabytes: int, seconds: int) -> None:
    """From here on this process gets so much more memory, and so much computing time; where the system can do that."""
    with suppress(ImportError, OSError, ValueError, StopIteration):
        import resource

        status = Path("/proc/self/status").read_text()
        used = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (used + megabytes * 1_000_000,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (2 * seconds, 2 * seconds + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def database() -> ModuleType:
    """backend/store/database.py without the rest of its room, which takes seconds to import."""
    sys.path.insert(0, str(PROJECT))
    spec = importlib.util.spec_from_file_location("database", Path(__file__).with_name("database.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(work: dict, out) -> None:
    """Writes the rows as an Arrow stream, at most work["rows"] and one more, which says that there are others."""
    room = database()
    connection = room.reading(Path(work["path"]), memory=f"{work['megabytes'] // 2}MB")
    connection.execute(f"USE {room.NAME}")
    for view in work["views"]:
        connection.execute(view)
    limit(work["megabytes"], work["seconds"])
    reader = connection.sql(work["query"]).to_arrow_reader(BATCH)
    left = work["rows"] + 1
    with pa.ipc.new_stream(out, reader.schema) as stream:
        for batch in reader:
            stream.write_batch(batch.slice(0, left))
            left -= min(left, batch.num_rows)
            if not left:
                break


def main() -> int:
    """The exit status."""
    work = json.load(sys.stdin)
    try:
        answer(work, sys.stdout.buffer)
    except (duckdb.Error, pa.ArrowException, OSError, MemoryError) as error:
        full = isinstance(error, MemoryError) or any(word in str(error).lower() for word in TOO_MUCH)
        print(json.dumps({"kind": "memory" if full else "query", "text": str(error)}), file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Study: several runs that answered one question, kept as the tables it declared and the ids of its members."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from backend.errors import HeadwaterError
from backend.store import database, files, ids, schema, sidecar, tables
from backend.store.check import check_file
from backend.store.entries import summary_of
from backend.store.reader import StoredFile

if TYPE_CHECKING:
    from backend.store.library import Library


class Study(StoredFile):
    """One stored study, read only. info: type "study", study (its name), parameters, members (ids of analyses)."""


def save_study(
    library: Library,
    study: str,
    parameters: Mapping[str, object],
    members: list[str],
    results: Mapping[str, pa.Table],
    *,
    info: Mapping[str, object] | None = None,
    id: str | None = None,
    title: str | None = None,
    visibility: str = "link",
    owner: str | None = None,
    made_of: tuple[str, ...] = (),
) -> str:
    """Stores a finished study, published like an analysis; its id. results: table -> rows.

    Their tables and columns have names of small letters, digits and _.
    id: one chosen before, so that a study which is carried on after a kill is not published twice.
    """
    columns = [column for rows in results.values() for column in rows.column_names]
    wrong = [name for name in (*results, *columns) if not schema.PLAIN_NAME.fullmatch(name)]
    wrong += [name for name in results if name == "info"]
    if wrong or any(name.startswith("maps_") for name in results):
        raise HeadwaterError(
            f"Tables and columns of a study: expected names like 'scores', not 'info' or 'maps_...'; got {wrong}."
        )
    id = ids.new_id() if id is None else ids.checked(id)
    created = datetime.now(UTC).isoformat(timespec="milliseconds")
    own = {"id": id, "type": "study", "schema_version": schema.current(), "created_at": created}
    own["visibility"] = visibility
    facts = {**(info or {}), **own, "study": study, "parameters": dict(parameters), "members": list(members)}
    try:
        library.prepare()
        with files.workplace(library.folder(id)) as temporary:
            counts = _write(temporary, results, facts)
            check_file(temporary, counts)
            content = sidecar.Sidecar(
                title=title or study,
                visibility=visibility,
                owner=owner,
                made_of=made_of,
                summary=summary_of(facts, temporary.stat().st_size),
            )
            library.put(id, temporary, content)
    except OSError as error:
        raise database.store_error(error) from error
    return id


def _write(temporary: Path, results: Mapping[str, pa.Table], facts: dict[str, object]) -> dict[str, int]:
    connection = database.writing(temporary, temporary.with_name(files.SPILL))
    try:
        for name, rows in {**results, "info": pa.Table.from_pylist(tables.info(facts))}.items():
            connection.register("incoming", rows)
            connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM incoming')
            connection.unregister("incoming")
        connection.execute("COMMIT")
        connection.execute("CHECKPOINT")
    except (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.TransactionException) as error:
        raise database.store_error(error) from error
    finally:
        connection.close()
    return {name: rows.num_rows for name, rows in results.items()}

"""AnalysisWriter: layers go into a new analysis file as they come, and the finished file gets its name at the end."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from backend.errors import HeadwaterError, StoreError
from backend.store import database, exact, files, ids, schema, sidecar, tables
from backend.store.blobs import Blob, as_table
from backend.store.check import check_file
from backend.store.entries import summary_of
from backend.types import LayerRecord, RunRecord

if TYPE_CHECKING:
    from backend.store.library import Library


MAPS_TABLE_BYTES = 64_000_000


class AnalysisWriter:
    """Writes one analysis: `layer` as layers come, then `publish`. Without publish, leaving the context drops it all.

    Everything is one transaction; what does not fit WRITER_MEMORY waits in the folder of the analysis. Use it in one
    thread. Raises StoreError where the disk does not take the data.
    """

    def __init__(self, library: Library | Path | str, *, id: str | None = None) -> None:
        """library: where the analysis will live, a Library or its folder. id: a fixed name (bundled analyses)."""
        from backend.store.library import Library

        self.library = library if isinstance(library, Library) else Library(library)
        self.id = ids.new_id() if id is None else ids.checked(id)
        self._small: list[LayerRecord] | None = []  # layers of an analysis that may stay in float32
        self._small_bytes = 0
        self._heads: list[dict] = []
        self._layers: list[dict] = []
        self._maps = [0]  # bytes in each table of arrays
        self._memory = database.WRITER_MEMORY
        self._database: duckdb.DuckDBPyConnection | None = None
        self._stack = ExitStack()
        try:
            self.library.prepare()
            self._temporary = self._stack.enter_context(files.workplace(self.library.folder(self.id)))
        except OSError as error:
            self.abandon()
            raise database.store_error(error) from error
        except HeadwaterError:
            self.abandon()
            raise

    def __enter__(self) -> AnalysisWriter:
        return self

    def __exit__(self, *_) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Drops what was written. After publish it does nothing."""
        self._stack.close()

    def layer(self, record: LayerRecord) -> None:
        """Adds one layer. Layers of a small analysis wait until it is known to be one."""
        if self._small is None:
            self._write_layer(record, small=False)
            return
        self._small.append(record)
        self._small_bytes += exact.float32_bytes(record)
        if self._small_bytes >= exact.SMALL_ANALYSIS:
            self._write_waiting(small=False)

    def publish(
        self,
        run: RunRecord,
        *,
        visibility: str = "link",
        owner: str | None = None,
        title: str | None = None,
        tags: tuple[str, ...] = (),
        made_of: tuple[str, ...] = (),
    ) -> str:
        """Finishes the file, checks it by reading it back, and gives it its name; the id of the analysis."""
        if self._small is not None:
            self._write_waiting(small=True)
        self._create()
        info = {**self._info(run), "visibility": visibility}
        self._insert("tokens", tables.tokens(run.tokens))
        for name, rows in (
            ("segments", tables.segments(run.segments)),
            ("predictions", tables.predictions(run.predictions)),
            ("layers", self._layers),
            ("info", tables.info(info)),
        ):
            self._insert(name, pa.Table.from_pylist(rows) if rows else None)
        self._write_heads()
        counts = self._commit()
        check_file(self._temporary, counts)
        entry = sidecar.Sidecar(
            title=title or sidecar.title_of(info),
            tags=tuple(tags),
            visibility=visibility,
            owner=owner,
            made_of=made_of,
            summary=summary_of(info, self._temporary.stat().st_size),
        )
        self.library.put(self.id, self._temporary, entry)
        self.abandon()
        return self.id

    # -- the parts -----------------------------------------------------------------------------------------------------

    def _write_waiting(self, small: bool) -> None:
        waiting, self._small = self._small or [], None
        for record in waiting:
            self._write_layer(record, small)

    def _write_layer(self, record: LayerRecord, small: bool) -> None:
        self._create()
        place = {"kind": record.info.kind, "layer": record.info.layer}
        blobs, lse = exact.keep(record, small)
        blobs += exact.pooled_blobs(record)
        score, tensors = tables.rule_blobs(record)
        blobs += [Blob(f"score.{name}", None, dtype, shape, data) for name, dtype, shape, data in tensors]
        maps = self._maps_table(sum(len(blob.data) for blob in blobs))
        self._insert(maps, as_table(blobs), **place)
        self._insert("rows", tables.rows(record, lse), **place)
        self._insert("keys", tables.keys(record), **place)
        self._insert("distances", tables.distances(record), **place)
        self._insert("coverage", tables.coverage(record), **place)
        self._insert("links", tables.links(record), **place)
        self._insert("hidden", tables.hidden(record), **place)
        self._layers.append(tables.layer_row(record, score, maps))
        self._heads += tables.heads(record)

    def _create(self) -> None:
        """Opens the file and makes its tables, at the first layer that is written."""
        if self._database is not None:
            return
        spill = self._temporary.with_name(files.SPILL)
        self._database = database.writing(self._temporary, spill)
        self._stack.callback(self._database.close)
        for name, columns in schema.tables().items():
            if name != "heads":
                self._execute(schema.create_statement(name, columns))
        self._execute(schema.create_statement(schema.maps_table(0), schema.maps_columns()))

    def _maps_table(self, size: int) -> str:
        """The table that takes `size` bytes more of arrays. At commit DuckDB holds one such table in memory."""
        if self._maps[-1] and self._maps[-1] + size > MAPS_TABLE_BYTES:
            self._maps.append(0)
            self._execute(schema.create_statement(schema.maps_table(len(self._maps) - 1), schema.maps_columns()))
        self._maps[-1] += size
        if self._memory < 3 * self._maps[-1]:
            self._memory = 3 * self._maps[-1]
            self._execute(f"SET memory_limit = '{self._memory // 1_000_000 + 1}MB'")
        return schema.maps_table(len(self._maps) - 1)

    def _write_heads(self) -> None:
        """The table of statistics: its columns are known once the last layer is there."""
        names = list(dict.fromkeys(name for row in self._heads for name in row if name not in schema.tables()["heads"]))
        columns = schema.tables()["heads"] | dict.fromkeys(names, "DOUBLE")
        self._execute(schema.create_statement("heads", columns))
        if self._heads:
            self._insert("heads", pa.table({name: [row.get(name) for row in self._heads] for name in columns}))

    def _info(self, run: RunRecord) -> dict[str, object]:
        """What the run knows, and what the store adds."""
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        own = {"id": self.id, "type": "analysis", "schema_version": schema.current()}
        counted = {"n_tokens": len(run.tokens), "n_layers": len(self._layers)}
        return {"created_at": created, **counted, **run.info, **own}

    def _insert(self, table: str, rows: pa.Table | None, **constants: object) -> None:
        if rows is None or rows.num_rows == 0:
            return
        names = ", ".join(f'"{name}"' for name in (*constants, *rows.column_names))
        values = ", ".join(["?"] * len(constants) + [f'"{name}"' for name in rows.column_names])
        self._database.register("incoming", rows)
        self._execute(f'INSERT INTO "{table}" ({names}) SELECT {values} FROM incoming', list(constants.values()))
        self._database.unregister("incoming")

    def _commit(self) -> dict[str, int]:
        """Ends the transaction and closes the file; the number of rows of every table."""
        names = [*schema.tables(), *(schema.maps_table(number) for number in range(len(self._maps)))]
        counts = {name: self._execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}
        self._execute("COMMIT")
        self._execute("CHECKPOINT")
        self._database.close()
        return counts

    def _execute(self, statement: str, values: list | None = None) -> duckdb.DuckDBPyConnection:
        try:
            return self._database.execute(statement, values or [])
        except (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.TransactionException) as error:
            raise database.store_error(error) from error


__all__ = ["AnalysisWriter", "StoreError"]

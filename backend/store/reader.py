"""A finished file, read only: its facts and tables. No model and no GPU are needed; many threads may share it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import duckdb
import numpy as np
import pyarrow as pa

from backend.errors import Damaged, NotFound
from backend.store import query as people
from backend.store import schema
from backend.store.connections import connections
from backend.types import LayerInfo, Segment, Token

KINDS = ("self", "encoder", "decoder", "cross")


class StoredFile:
    """What analyses and studies share: a path, info, tables, SQL."""

    def __init__(self, path: Path, id: str, keep_alive: object = None) -> None:
        """keep_alive: what must live as long as this object, such as a temporary library."""
        self.path = Path(path)
        self.id = id
        self._keep_alive = keep_alive

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @cached_property
    def info(self) -> dict:
        """Facts about the run, see docs/analysis-file.md."""
        rows = self._rows("SELECT name, value FROM info", what="the facts about the run")
        try:
            return {name: json.loads(value) for name, value in rows} | {"id": self.id}
        except (ValueError, TypeError, RecursionError):
            raise Damaged(f"Analysis {self.id}: the facts about the run are damaged.") from None

    def saved_with(self) -> dict:
        """The id and the visibility under which the file was made; a file from elsewhere has another id."""
        rows = self._rows("SELECT name, value FROM info WHERE name IN ('id', 'visibility')", what="the facts of saving")
        try:
            return {name: json.loads(value) for name, value in rows}
        except (ValueError, TypeError, RecursionError):
            return {}

    def tables(self) -> list[str]:
        """Names of the tables in the file, without those of arrays."""
        rows = self._rows("SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()")
        return sorted(name for (name,) in rows if not schema.is_maps_table(name))

    def table(self, name: str, **where: object) -> pa.Table:
        """One table, or the part of it where columns have the given values; None leaves a column free."""
        if name not in self.tables():
            raise NotFound(f"There is no table {str(name)[:64]!r}; there are {', '.join(self.tables())}.")
        plain = {column: value.item() if isinstance(value, np.generic) else value for column, value in where.items()}
        given = {column: value for column, value in plain.items() if value is not None}
        condition = " AND ".join(f'"{column}" = ?' for column in given) or "true"
        with self._cursor(f"the table {name}") as cursor:
            query = f'SELECT * FROM "{name}" WHERE {condition}'
            return cursor.sql(query, params=list(given.values())).to_arrow_table()

    def sql(self, query: str, params: object = (), *, seconds: float = people.LONGEST_RUN) -> pa.Table:
        """The answer to one SELECT over the tables of this file. Refused for anything else, however it is written."""
        with self._cursor("the tables that the query reads") as cursor:
            return people.run(cursor, query, params, seconds)

    def _rows(self, query: str, params: object = (), what: str = "the tables") -> list[tuple]:
        with self._cursor(what) as cursor:
            return cursor.execute(query, params or []).fetchall()

    @contextmanager
    def _cursor(self, what: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for one piece of work; damage is reported with what was being read."""
        try:
            with connections.cursor(self.path) as cursor:
                yield cursor
        except Damaged as error:
            raise Damaged(f"Analysis {self.id}, {what}: {error}. The rest can still be read.") from error


class Tables(StoredFile):
    """The tables of an analysis, each with the columns of docs/analysis-file.md."""

    def rows(self, *, kind: str | None = None, layer: int | None = None, head: int | None = None) -> pa.Table:
        """Measures of every query row; optionally of one kind, layer or head. So for the tables below."""
        return self.table("rows", kind=kind, layer=layer, head=head)

    def keys(self, *, kind: str | None = None, layer: int | None = None, head: int | None = None) -> pa.Table:
        """What every key receives."""
        return self.table("keys", kind=kind, layer=layer, head=head)

    def heads(self, *, kind: str | None = None, layer: int | None = None, head: int | None = None) -> pa.Table:
        """Every statistic of every head."""
        return self.table("heads", kind=kind, layer=layer, head=head)

    def distances(self, *, kind: str | None = None, layer: int | None = None, head: int | None = None) -> pa.Table:
        """Weight by distance."""
        return self.table("distances", kind=kind, layer=layer, head=head)

    def coverage(self, *, kind: str | None = None, layer: int | None = None, head: int | None = None) -> pa.Table:
        """How many keys hold 50 to 99 % of a sampled row."""
        return self.table("coverage", kind=kind, layer=layer, head=head)

    def hidden(self, *, kind: str | None = None, layer: int | None = None) -> pa.Table:
        """Norm and largest magnitude of the residual stream before each layer."""
        return self.table("hidden", kind=kind, layer=layer)

    def predictions(self) -> pa.Table:
        """Candidates for the next token."""
        return self.table("predictions")

    def tokens(self) -> pa.Table:
        """The token table."""
        return self.table("tokens")

    def tokens_list(self) -> list[Token]:
        """The tokens as records, in order; of encoder-decoders the source side first."""
        return list(self._tokens)

    def segments(self) -> list[Segment]:
        """Named runs of tokens."""
        rows = self.table("segments").sort_by("segment").to_pylist()
        return [Segment(row["name"], row["kind"], row["start"], row["stop"]) for row in rows]

    def layers(self, kind: str | None = None) -> list[LayerInfo]:
        """The layers that were captured, in the order of the model."""
        return [layer for layer in self._layers if kind in (None, layer.kind)]

    def statistic(self, name: str, kind: str | None = None) -> np.ndarray:
        """One statistic as float64 [layers, heads], layers as in layers(kind); NaN where undefined or no such head.

        kind: the first one of the analysis by default.
        """
        kind = kind or self._layers[0].kind
        places = {layer.layer: i for i, layer in enumerate(self.layers(kind))}
        table = self.heads(kind=kind)
        if name in ("kind", "layer", "head") or name not in table.column_names:
            known = [column for column in table.column_names if column not in ("kind", "layer", "head")]
            raise NotFound(f"There is no statistic {str(name)[:64]!r} in this analysis; it has {', '.join(known)}.")
        grid = np.full((len(places), max((layer.heads for layer in self.layers(kind)), default=0)), np.nan)
        rows = [places[layer] for layer in table["layer"].to_pylist()]
        values = [np.nan if value is None else value for value in table[name].to_pylist()]
        grid[rows, table["head"].to_pylist()] = values
        return grid

    @cached_property
    def _tokens(self) -> tuple[Token, ...]:
        rows = self.table("tokens").to_pylist()
        for row in rows:
            row["end"] = row.pop("stop")
            for name in ("start", "end", "segment", "word"):
                row[name] = -1 if row[name] is None else row[name]
        return tuple(Token(**row) for row in sorted(rows, key=lambda row: (row["side"], row["position"])))

    @cached_property
    def _layers(self) -> tuple[LayerInfo, ...]:
        names = [field.name for field in fields(LayerInfo)]
        return tuple(LayerInfo(**{name: row[name] for name in names}) for row in self._layer_rows.values())

    @cached_property
    def _layer_rows(self) -> MappingProxyType[tuple[str, int], dict]:
        """(kind, layer) -> row of `layers`, ordered by kind and layer."""
        rows = self.table("layers").to_pylist()
        for row in rows:
            if not schema.is_maps_table(row["maps"]) or row["kind"] not in KINDS:
                raise Damaged(f"Analysis {self.id}: layer {row['layer']} names an unknown table of arrays.")
        rows.sort(key=lambda row: (KINDS.index(row["kind"]), row["layer"]))
        return MappingProxyType({(row["kind"], row["layer"]): row for row in rows})

"""The check of a file that somebody else made, before it enters a library.

It is opened on the restricted connection only. Accepted is exactly what a writer of this project makes: these tables,
columns and types and nothing beside them (no view, macro, default or index could do harm later), numbers within the
ranges that the readers rely on, and arrays whose sizes and checksums fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import torch

from backend.errors import Damaged, Refused
from backend.map_sizes import SIDES
from backend.store import check, codec, database, rule, schema
from backend.store.connections import stored_version
from backend.store.exact import DENSE_FLOAT16
from kernels.checks import check_score

MOST_TOKENS = 1 << 24
MOST_HEADS = 4096
MOST_PICTURE = 4096  # side of a pooled map
LONGEST_INFO = 64_000_000  # characters
STATISTIC = re.compile(r"[a-z][a-z0-9_]{0,63}")
STUDY_TYPES = re.compile(
    r"(BOOLEAN|(U?(TINY|SMALL|BIG)INT)|U?INTEGER|FLOAT|DOUBLE|VARCHAR|BLOB|DATE|TIMESTAMP( WITH TIME ZONE)?)(\[\])?"
)
# What a database can hold besides plain tables.
OTHER_THINGS = {
    "views": "SELECT view_name FROM duckdb_views() WHERE NOT internal AND database_name = ?",
    "macros": "SELECT function_name FROM duckdb_functions() WHERE NOT internal AND database_name = ?",
    "indexes": "SELECT index_name FROM duckdb_indexes() WHERE database_name = ?",
    "sequences": "SELECT sequence_name FROM duckdb_sequences() WHERE database_name = ?",
    "types": "SELECT type_name FROM duckdb_types() WHERE NOT internal AND database_name = ?",
    "constraints": "SELECT table_name FROM duckdb_constraints() WHERE database_name = ?",
    "schemas": "SELECT schema_name FROM duckdb_schemas() WHERE NOT internal AND schema_name <> 'main' "
    "AND database_name = ?",
}
COLUMNS = (
    "SELECT table_name, column_name, data_type, column_default FROM duckdb_columns() "
    "WHERE database_name = ? AND schema_name = 'main' ORDER BY table_name, column_index"
)
PLACES = {  # table -> (index column, the side of the map it must stay within)
    "rows": ("query", "queries"),
    "keys": ("key", "keys"),
    "coverage": ("query", "queries"),
    "links": ("query", "queries"),
    "distances": ("head", "heads"),
    "heads": ("head", "heads"),
}


def check_foreign(path: Path) -> None:
    """Raises NewerFile, Damaged or Refused where the file is not what a writer of this project makes."""
    connection = database.reading(path)
    try:
        schema.check_version(stored_version(connection))
        connection.execute(f"USE {database.NAME}")
        _only_tables(connection)
        info = _info(connection)
        if info.get("type") == "study":
            _study(connection)
        else:
            _analysis(connection, info)
    except duckdb.Error as error:
        raise Damaged(f"The file cannot be read as an analysis ({database.first_line(error)}).") from error
    finally:
        connection.close()


def _only_tables(connection: duckdb.DuckDBPyConnection) -> None:
    for what, query in OTHER_THINGS.items():
        found = connection.execute(query, [database.NAME]).fetchall()
        _expect(not found, f"no {what}", f"{len(found)}, {str(found[:1])[:80]}")


def _info(connection: duckdb.DuckDBPyConnection) -> dict:
    length = connection.execute("SELECT coalesce(sum(length(value)), 0) FROM info").fetchone()[0]
    _expect(length <= LONGEST_INFO, f"at most {LONGEST_INFO:,} characters of facts", f"{length:,}")
    try:
        return {name: json.loads(text) for name, text in connection.execute("SELECT name, value FROM info").fetchall()}
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged(f"The facts about the run are no JSON ({error}).") from None


def _study(connection: duckdb.DuckDBPyConnection) -> None:
    for table, column, kind, default in connection.execute(COLUMNS, [database.NAME]).fetchall():
        _expect(default is None, "columns without defaults", f"one in {table}.{column}")
        _expect(STUDY_TYPES.fullmatch(kind), "plain types", f"{kind} in {table}.{column}")


def _analysis(connection: duckdb.DuckDBPyConnection, info: dict) -> None:
    layers = connection.sql("SELECT * FROM layers ORDER BY kind, layer").to_arrow_table().to_pylist()
    sides = dict(connection.execute("SELECT side, count(*) FROM tokens GROUP BY side").fetchall())
    _expect(info.get("n_tokens") == sum(sides.values()), f"{sum(sides.values())} tokens", info.get("n_tokens"))
    _expect(0 < sum(sides.values()) <= MOST_TOKENS, f"1 to {MOST_TOKENS:,} tokens", sum(sides.values()))
    bad = connection.execute(
        "SELECT count(*) FROM (SELECT position, row_number() OVER (PARTITION BY side ORDER BY position) - 1 AS n "
        "FROM tokens) WHERE position IS DISTINCT FROM n"
    ).fetchone()[0]
    _expect(bad == 0, "token positions 0, 1, 2 ...", f"{bad} others")
    _expect(len({(row["kind"], row["layer"]) for row in layers}) == len(layers), "each layer once", "one twice")
    for row in layers:
        _layer(row, sides)
    _columns(connection, layers)
    _texts(connection)
    _ranges(connection, layers)
    _positions(connection, max(sides.values()))
    for row in layers:
        with _about(f"layer {row['layer']}"):
            _arrays(connection, row)
    bad_blobs = check.damaged_blobs(connection)
    if bad_blobs:
        raise Damaged(f"These arrays do not have their checksum: {', '.join(bad_blobs[:5])}.")


def _layer(row: dict, sides: dict[str, int]) -> None:
    name = f"layer {str(row['layer'])[:20]}"
    _expect(row["kind"] in SIDES, f"a kind out of {', '.join(SIDES)}", row["kind"])
    numbers = {key: row[key] for key in ("layer", "heads", "key_heads", "head_dim", "queries", "keys")}
    _expect(all(value is not None for value in numbers.values()), f"all numbers of {name}", numbers)
    _expect(0 <= row["layer"] < MOST_HEADS, f"a layer number under {MOST_HEADS}", row["layer"])
    _expect(0 < row["heads"] <= MOST_HEADS, f"1 to {MOST_HEADS} heads in {name}", row["heads"])
    divides = 0 < row["key_heads"] <= row["heads"] and row["heads"] % row["key_heads"] == 0
    _expect(divides, f"key heads that divide {row['heads']} in {name}", row["key_heads"])
    _expect(schema.is_maps_table(row["maps"]), f"a table of arrays for {name}", row["maps"])
    queries, keys = (sides.get(side) for side in SIDES[row["kind"]])
    _expect((row["queries"], row["keys"]) == (queries, keys), f"{queries} x {keys} positions in {name}", numbers)


def _columns(connection: duckdb.DuckDBPyConnection, layers: list[dict]) -> None:
    """Tables, columns, types and generated columns are those of the schema; heads may have more statistics."""
    fresh = duckdb.connect(":memory:")
    try:
        for table, columns in schema.tables().items():
            fresh.execute(schema.create_statement(table, columns))
        for name in {row["maps"] for row in layers}:
            fresh.execute(schema.create_statement(name, schema.maps_columns()))
        expected = fresh.execute(COLUMNS, ["memory"]).fetchall()
    finally:
        fresh.close()
    found = connection.execute(COLUMNS, [database.NAME]).fetchall()
    extra = set(found) - set(expected)
    statistics = {c for c in extra if c[0] == "heads" and STATISTIC.fullmatch(c[1]) and c[2:] == ("DOUBLE", None)}
    wrong = sorted(map(str, extra - statistics)) + sorted(map(str, set(expected) - set(found)))
    _expect(not wrong, "the tables and columns of an analysis", f"differences such as {wrong[:1]}")


def _ranges(connection: duckdb.DuckDBPyConnection, layers: list[dict]) -> None:
    """Every row belongs to a layer and head that exist and stays within the map."""
    for table, (column, side) in PLACES.items():
        bad = connection.execute(
            f'SELECT count(*) FROM "{table}" t LEFT JOIN layers l USING (kind, layer) WHERE l.layer IS NULL '
            f'OR t.head IS NULL OR t.head < 0 OR t.head >= l.heads OR t."{column}" < 0 OR t."{column}" >= l."{side}"'
        ).fetchone()[0]
        _expect(bad == 0, f"rows of {table} within the layers", f"{bad} outside")
    for table, side in (("rows", "queries"), ("keys", "keys")):
        count = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
        wanted = sum(row["heads"] * row[side] for row in layers)
        _expect(count == wanted, f"{wanted} rows in {table}", count)
    bad = connection.execute(
        "SELECT count(*) FROM links JOIN layers USING (kind, layer) WHERE links.key < 0 OR links.key >= layers.keys"
    ).fetchone()[0]
    _expect(bad == 0, "links within the map", f"{bad} outside")


def _positions(connection: duckdb.DuckDBPyConnection, length: int) -> None:
    """What points into the text stays within it."""
    for what, query in {
        "segments": "SELECT count(*) FROM segments WHERE NOT (0 <= start AND start <= stop AND stop <= $1)",
        "tokens": "SELECT count(*) FROM tokens WHERE segment < 0 OR segment >= (SELECT count(*) FROM segments) "
        "OR $1 < 0",
        "predictions": "SELECT count(*) FROM predictions WHERE NOT (0 <= position AND position < $1)",
        "hidden": "SELECT count(*) FROM hidden LEFT JOIN layers USING (kind, layer) "
        "WHERE heads IS NULL OR NOT (0 <= position AND position < $1)",
    }.items():
        bad = connection.execute(query, [length]).fetchone()[0]
        _expect(bad == 0, f"{what} within {length} positions", f"{bad} outside")


def _texts(connection: duckdb.DuckDBPyConnection) -> None:
    """Every text is UTF-8; DuckDB itself does not look."""
    for table in ("info", "tokens", "segments", "predictions", "layers"):
        try:
            connection.sql(f'SELECT * FROM "{table}"').to_arrow_table().validate(full=True)
        except pa.ArrowInvalid:
            _expect(False, f"texts in {table}", "bytes that are none")


def _arrays(connection: duckdb.DuckDBPyConnection, row: dict) -> None:
    """Shape, codec and size of every array of one layer; queries, keys and lse go together; the rule can be read."""
    here, place = f'FROM "{row["maps"]}" WHERE kind = ? AND layer = ?', [row["kind"], row["layer"]]
    found = connection.execute(f"SELECT part, head, codec, shape, octet_length(data) {here}", place).fetchall()
    arrays = {(part, head): tuple(rest) for part, head, *rest in found}
    _expect(len(arrays) == len(found), "each array once", "one twice")
    group = row["heads"] // row["key_heads"]
    shapes = {
        "query": (row["queries"], row["head_dim"]),
        "key": (row["keys"], row["head_dim"]),
        "lse": (row["queries"],),
        "dense": (row["queries"], row["keys"]),
    }
    tensors = {}
    for (part, head), (name, shape, length) in arrays.items():
        if part.startswith("score.") and head is None:
            data = connection.execute(f"SELECT data {here} AND part = ?", [*place, part]).fetchone()[0]
            tensors[part.removeprefix("score.")] = rule.tensor_from(name, tuple(shape), data)
            continue
        heads = row["key_heads"] if part == "key" else row["heads"]
        _expect(head is not None and 0 <= head < heads, f"a head under {heads} for {part}", head)
        if part in ("pooled_mean", "pooled_max"):
            fits = len(shape) == 2 and min(shape) > 0 and max(shape) <= MOST_PICTURE
            fits = fits and shape[0] <= row["queries"] and shape[1] <= row["keys"]
        else:
            fits = tuple(shape) == shapes.get(part)
        _expect(fits and name in codec.CODECS, f"a known array of {part}", f"{name} {shape}")
        _expect(length == codec.size(name, tuple(shape)), f"{codec.size(name, tuple(shape))} bytes of {part}", length)
        _expect(part != "dense" or max(shape) <= DENSE_FLOAT16, f"dense maps up to {DENSE_FLOAT16} tokens", shape)
        if part == "query":
            whole = ("lse", head) in arrays and ("key", head // group) in arrays
            _expect(whole, f"keys and lse beside the queries of head {head}", "not both")
    score = rule.from_json(row["score"] or "", tensors)
    try:
        check_score(score, 1, row["heads"], row["queries"], row["keys"], torch.device("cpu"))
    except ValueError as error:
        raise Damaged(f"The rule of this layer's weights does not fit the layer: {error}") from None


@contextmanager
def _about(what: str) -> Iterator[None]:
    """Says where a Damaged was found."""
    try:
        yield
    except Damaged as error:
        raise Damaged(f"{what}: {error}") from None


def _expect(right: object, expected: str, found: object) -> None:
    if not right:
        raise Refused(
            f"This file was not imported: it is no analysis as Headwater writes it. Expected {expected}, "
            f"found {str(found)[:120]}."
        )

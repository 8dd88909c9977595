"""The check of a file that somebody else made, before it enters a library.

It is opened on the restricted connection only. Accepted is exactly what a writer of this project makes: these tables,
columns and types and nothing beside them (no view, macro, default or index could do harm later), numbers within the
ranges that the readers rely on, and arrays whose sizes and checksums fit.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import torch

from backend.errors import Damaged
from backend.map_sizes import SIDES
from backend.store import check, codec, database, import_limits, import_tables, rule, schema
from backend.store.connections import stored_version
from backend.store.exact import DENSE_FLOAT16
from backend.store.import_limits import about, expect
from kernels.checks import check_score

MOST_TOKENS = 1 << 20
MOST_LAYERS = 1024
MOST_HEADS = 4096
MOST_PICTURE = 4096  # side of a pooled map
LARGEST_SIDE = 65_536  # of a head: numbers per query or key
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


def check_foreign(path: Path) -> None:
    """Raises NewerFile, Damaged or Refused where the file is not what a writer of this project makes."""
    import_limits.check_kind(path)
    connection = database.reading(path)
    try:
        with import_limits.stopped(connection):
            schema.check_version(stored_version(connection))
            connection.execute(f"USE {database.NAME}")
            _only_tables(connection)
            import_limits.check_sizes(connection, path.stat().st_size)
            info = _info(connection)
            if info.get("type") == "study":
                _study(connection)
            else:
                _analysis(connection, info)
    except (duckdb.Error, pa.ArrowException) as error:
        raise Damaged(f"The file cannot be read as an analysis ({database.first_line(error)}).") from error
    finally:
        connection.close()


def _only_tables(connection: duckdb.DuckDBPyConnection) -> None:
    for what, query in OTHER_THINGS.items():
        found = connection.execute(query, [database.NAME]).fetchall()
        expect(not found, f"no {what}", f"{len(found)}, {str(found[:1])[:80]}")


def _info(connection: duckdb.DuckDBPyConnection) -> dict:
    rows = connection.execute("SELECT name, value FROM info").fetchall()
    expect(len(dict(rows)) == len(rows), "each fact once", "one twice")
    try:
        return {name: json.loads(text) for name, text in rows}
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged(f"The facts about the run are no JSON ({error}).") from None


def _study(connection: duckdb.DuckDBPyConnection) -> None:
    for table, column, kind, default in connection.execute(COLUMNS, [database.NAME]).fetchall():
        plain = all(schema.PLAIN_NAME.fullmatch(name) for name in (table, column))
        expect(plain, "names of small letters, digits and _", f"{table[:64]!r}, {column[:64]!r}")
        expect(default is None, "columns without defaults", f"one in {table}.{column}")
        expect(STUDY_TYPES.fullmatch(kind), "plain types", f"{kind} in {table}.{column}")


def _analysis(connection: duckdb.DuckDBPyConnection, info: dict) -> None:
    layers = connection.sql("SELECT * FROM layers ORDER BY kind, layer").to_arrow_table().to_pylist()
    sides = dict(connection.execute("SELECT side, count(*) FROM tokens GROUP BY side").fetchall())
    expect(info.get("n_tokens") == sum(sides.values()), f"{sum(sides.values())} tokens", info.get("n_tokens"))
    expect(0 < sum(sides.values()) <= MOST_TOKENS, f"1 to {MOST_TOKENS:,} tokens", sum(sides.values()))
    bad = connection.execute(
        "SELECT count(*) FROM (SELECT position, row_number() OVER (PARTITION BY side ORDER BY position) - 1 AS n "
        "FROM tokens) WHERE position IS DISTINCT FROM n"
    ).fetchone()[0]
    expect(bad == 0, "token positions 0, 1, 2 ...", f"{bad} others")
    expect(0 < len(layers) <= MOST_LAYERS, f"1 to {MOST_LAYERS} layers", len(layers))
    expect(len({(row["kind"], row["layer"]) for row in layers}) == len(layers), "each layer once", "one twice")
    for row in layers:
        _layer(row, sides)
    _columns(connection, layers)
    import_tables.check(connection, layers, max(sides.values()))
    for row in layers:
        with about(f"layer {row['layer']}"):
            _arrays(connection, row)
    bad_blobs = check.damaged_blobs(connection)
    if bad_blobs:
        raise Damaged(f"These arrays do not have their checksum: {', '.join(bad_blobs[:5])}.")


def _layer(row: dict, sides: dict[str, int]) -> None:
    name = f"layer {str(row['layer'])[:20]}"
    expect(row["kind"] in SIDES, f"a kind out of {', '.join(SIDES)}", row["kind"])
    numbers = {key: row[key] for key in ("layer", "heads", "key_heads", "head_dim", "queries", "keys")}
    expect(all(value is not None for value in numbers.values()), f"all numbers of {name}", numbers)
    expect(0 <= row["layer"] < MOST_HEADS, f"a layer number under {MOST_HEADS}", row["layer"])
    expect(0 < row["heads"] <= MOST_HEADS, f"1 to {MOST_HEADS} heads in {name}", row["heads"])
    expect(0 < row["head_dim"] <= LARGEST_SIDE, f"1 to {LARGEST_SIDE} numbers per head in {name}", row["head_dim"])
    divides = 0 < row["key_heads"] <= row["heads"] and row["heads"] % row["key_heads"] == 0
    expect(divides, f"key heads that divide {row['heads']} in {name}", row["key_heads"])
    expect(schema.is_maps_table(row["maps"]), f"a table of arrays for {name}", row["maps"])
    queries, keys = (sides.get(side) for side in SIDES[row["kind"]])
    expect((row["queries"], row["keys"]) == (queries, keys), f"{queries} x {keys} positions in {name}", numbers)


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
    statistics = {
        c for c in extra if c[0] == "heads" and schema.PLAIN_NAME.fullmatch(c[1]) and c[2:] == ("DOUBLE", None)
    }
    wrong = sorted(map(str, extra - statistics)) + sorted(map(str, set(expected) - set(found)))
    expect(not wrong, "the tables and columns of an analysis", f"differences such as {wrong[:1]}")


def _arrays(connection: duckdb.DuckDBPyConnection, row: dict) -> None:
    """Shape, codec and size of every array of one layer; queries, keys and lse go together; the rule can be read."""
    here, place = f'FROM "{row["maps"]}" WHERE kind = ? AND layer = ?', [row["kind"], row["layer"]]
    found = connection.execute(f"SELECT part, head, codec, shape, octet_length(data) {here}", place).fetchall()
    arrays = {(part, head): tuple(rest) for part, head, *rest in found}
    expect(len(arrays) == len(found), "each array once", "one twice")
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
        expect(head is not None and 0 <= head < heads, f"a head under {heads} for {part}", head)
        if part in ("pooled_mean", "pooled_max"):
            fits = len(shape) == 2 and min(shape) > 0 and max(shape) <= MOST_PICTURE
            fits = fits and shape[0] <= row["queries"] and shape[1] <= row["keys"]
        else:
            fits = tuple(shape) == shapes.get(part)
        expect(fits and name in codec.CODECS, f"a known array of {part}", f"{name} {shape}")
        expect(length == codec.size(name, tuple(shape)), f"{codec.size(name, tuple(shape))} bytes of {part}", length)
        expect(part != "lse" or name == "float32", "log-sum-exps in float32", name)
        expect(part != "dense" or max(shape) <= DENSE_FLOAT16, f"dense maps up to {DENSE_FLOAT16} tokens", shape)
        if part == "query":
            whole = ("lse", head) in arrays and ("key", head // group) in arrays
            expect(whole, f"keys and lse beside the queries of head {head}", "not both")
    for head, data in connection.execute(f"SELECT head, data {here} AND part = 'lse'", place).fetchall():
        unknown = int(np.isnan(np.frombuffer(data, "<f4")).sum())
        expect(unknown == 0, f"log-sum-exps of head {head} that are numbers", f"{unknown} that are none")
    score = rule.from_json(row["score"] or "", tensors)
    try:
        check_score(score, 1, row["heads"], row["queries"], row["keys"], torch.device("cpu"))
    except ValueError as error:
        raise Damaged(f"The rule of this layer's weights does not fit the layer: {error}") from None

"""The rows of a file from elsewhere: each one once, of a head that exists, within its map, nothing missing."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from backend.store.import_limits import expect

PLACES = {  # table -> (index column, the side of the map it must stay within)
    "rows": ("query", "queries"),
    "keys": ("key", "keys"),
    "coverage": ("query", "queries"),
    "links": ("query", "queries"),
    "distances": ("distance", None),
    "heads": ("head", "heads"),
}
HEAD = ("kind", "layer", "head")
UNIQUE = {  # table -> columns that tell its rows apart; none of them may be missing
    "tokens": ("side", "position"),
    "segments": ("segment",),
    "rows": (*HEAD, "query"),
    "keys": (*HEAD, "key"),
    "heads": HEAD,
    "distances": (*HEAD, "distance"),
    "coverage": (*HEAD, "query", "percent"),
    "links": (*HEAD, "query", "key"),
    "hidden": ("kind", "layer", "position"),
    "predictions": ("position", "rank"),
}
NEEDED = {  # table -> columns that hold a value in every row
    "tokens": ("token_id", "text", "label", "raw", "bytes", "is_special"),
    "segments": ("name", "kind", "start", "stop"),
    "layers": ("kind", "layer", "module", "attention", "heads", "key_heads", "head_dim", "value_dim", "maps"),
    "rows": ("visible_keys",),
    "keys": ("visible_rows",),
    "distances": ("rows", "mass_sum"),
    "links": ("weight",),
    "predictions": ("token_id", "text"),
}
FINITE = {"rows": ("lse",), "links": ("weight",), "distances": ("mass_sum",)}  # NULL where unknown, never NaN


def check(connection: duckdb.DuckDBPyConnection, layers: list[dict], length: int) -> None:
    """Refused where a row is missing, there twice, outside its map or without what a reader needs."""
    _texts(connection)
    for table, columns in NEEDED.items():
        missing = " OR ".join(f'"{column}" IS NULL' for column in (*columns, *UNIQUE.get(table, ())))
        _none(connection, f'SELECT count(*) FROM "{table}" WHERE {missing}', f"{table} without gaps", "rows with gaps")
    for table, columns in UNIQUE.items():
        names = ", ".join(f'"{column}"' for column in columns)
        query = f'SELECT count(*) - count(DISTINCT ({names})) FROM "{table}"'
        _none(connection, query, f"each row of {table} once", "there again")
    for table, columns in FINITE.items():
        wrong = " OR ".join(f'isnan("{column}") OR "{column}" = \'inf\'' for column in columns)
        _none(connection, f'SELECT count(*) FROM "{table}" WHERE {wrong}', f"numbers in {table}", "that are none")
    _ranges(connection, layers)
    _positions(connection, length)


def _ranges(connection: duckdb.DuckDBPyConnection, layers: list[dict]) -> None:
    """Every row belongs to a layer and head that exist and stays within the map."""
    for table, (column, side) in PLACES.items():
        inside = (
            f't."{column}" > -l.keys AND t."{column}" < l.queries + l.keys'
            if side is None
            else f't."{column}" >= 0 AND t."{column}" < l."{side}"'
        )
        bad = (
            f'SELECT count(*) FROM "{table}" t LEFT JOIN layers l USING (kind, layer) WHERE l.layer IS NULL '
            f"OR NOT coalesce(t.head >= 0 AND t.head < l.heads AND {inside}, false)"
        )
        _none(connection, bad, f"rows of {table} within the layers", "outside")
    for table, side in (("rows", "queries"), ("keys", "keys")):
        count = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
        wanted = sum(row["heads"] * row[side] for row in layers)
        expect(count == wanted, f"{wanted} rows in {table}", count)
    heads = connection.execute("SELECT count(*) FROM heads").fetchone()[0]
    expect(heads == sum(row["heads"] for row in layers), "each head once", heads)
    bad = "SELECT count(*) FROM links JOIN layers USING (kind, layer) WHERE links.key < 0 OR links.key >= layers.keys"
    _none(connection, bad, "links within the map", "outside")


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
        expect(bad == 0, f"{what} within {length} positions", f"{bad} outside")


def _texts(connection: duckdb.DuckDBPyConnection) -> None:
    """Every text is UTF-8; DuckDB itself does not look."""
    for table in ("info", "tokens", "segments", "predictions", "layers"):
        try:
            connection.sql(f'SELECT * FROM "{table}"').to_arrow_table().validate(full=True)
        except pa.ArrowInvalid:
            expect(False, f"texts in {table}", "bytes that are none")


def _none(connection: duckdb.DuckDBPyConnection, query: str, expected: str, found: str) -> None:
    """The query counts what should not be there."""
    count = connection.execute(query).fetchone()[0]
    expect(count == 0, expected, f"{count} {found}")

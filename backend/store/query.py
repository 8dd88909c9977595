"""SQL that people type: one SELECT over the tables of the file, and nothing that tells about the server.

The connection itself can reach no file and no setting (database.reading). What remains are functions and views of
DuckDB that show paths and settings, so a query is parsed first and may name only the tables of the analysis, tables
made of values, and functions that compute.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from backend.errors import Refused
from backend.store import database, schema

LONGEST_QUERY = 20_000  # characters
LONGEST_RUN = 30.0  # seconds
LARGEST_RESULT = 1_000_000_000  # bytes
TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "repeat"}
FORBIDDEN_FUNCTIONS = re.compile(
    r"(current_|duckdb_|pragma_|read_|parse_path|parse_filename|parse_dirpath|query|json_execute|getenv|getvariable|"
    r"glob|sniff_|which_secret|version|txid|pg_|has_|in_search_path|write_|checkpoint|force_|nextval|currval|"
    r"(user|session_user|current)$).*",
    re.IGNORECASE,
)
FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|(?>/\*.*?\*/)|[;(])*+([A-Za-z]+)", re.DOTALL)
QUESTIONS = {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "DESCRIBE", "SUMMARIZE", "SHOW"}


def run(cursor: duckdb.DuckDBPyConnection, query: str, params: object, seconds: float = LONGEST_RUN) -> pa.Table:
    """The result as a table. Refused where the query is not allowed, wrong, too slow or too large."""
    allowed(cursor, query)
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        cursor.interrupt()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        reader = cursor.sql(query, params=params or None).to_arrow_reader(100_000)
        batches, size = [], 0
        for batch in reader:
            size += batch.nbytes
            if size > LARGEST_RESULT:
                raise Refused(
                    f"The result is larger than {LARGEST_RESULT // 1_000_000} MB. Aggregate it, or add a LIMIT."
                )
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)
    except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
        if database.is_damage(error):
            raise  # the caller says which file
        if stopped.is_set():
            raise Refused(f"The query ran for {seconds:.0f} s and was stopped. Make it smaller.") from None
        raise Refused(f"The query cannot be answered: {database.first_line(error)}") from None
    finally:
        timer.cancel()


def allowed(cursor: duckdb.DuckDBPyConnection, query: str) -> None:
    """Refused unless the query is one SELECT over the tables of this file."""
    if not isinstance(query, str) or not query.strip() or len(query) > LONGEST_QUERY:
        raise Refused(f"Expected one SELECT of at most {LONGEST_QUERY:,} characters.")
    try:
        text = cursor.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchone()[0]
    except duckdb.Error as error:
        raise Refused(f"The query cannot be read: {database.first_line(error)}") from None
    parsed = json.loads(text)
    if parsed.get("error"):
        raise _not_one_select(query, parsed)
    if len(parsed["statements"]) != 1:
        count = len(parsed["statements"]) or "no"
        raise Refused(f"Expected one SELECT, got {count} statements. Send one at a time.")
    tables = _names(cursor, "SELECT table_name FROM duckdb_tables() WHERE database_name = ?", database.NAME)
    internal = _names(cursor, "SELECT view_name FROM duckdb_views() WHERE internal")
    nodes = list(_nodes(parsed["statements"]))
    named = {str(item["key"]).lower() for node in nodes for item in (node.get("cte_map") or {}).get("map", [])}
    named |= {str(node["cte_name"]).lower() for node in nodes if "cte_name" in node}
    # A WITH holds in its own scope only; elsewhere in the query its name would still be that of DuckDB's view.
    if taken := sorted(named & internal):
        raise Refused(f"{taken[0]!r} is a view of DuckDB itself. Give this part of the query another name.")
    for node in nodes:
        _check_node(node, tables, tables | named)


def _not_one_select(query: str, parsed: dict) -> Refused:
    """What was expected, what came instead, and what to do."""
    if parsed.get("error_type") != "not implemented":
        said = database.calm(str(parsed.get("error_message", "")))[:200].rstrip(".")
        return Refused(f"The query cannot be read: {said}. Expected one SELECT, as in: SELECT * FROM heads LIMIT 10")
    match = FIRST_WORD.match(query)
    word = match[1].upper() if match else "something else"
    if word in QUESTIONS:
        return Refused("Expected one SELECT and nothing after it, got more than one statement. Send one at a time.")
    if word in ("PIVOT", "UNPIVOT"):
        return Refused(
            f"{word} is not available here. Write it as SELECT, with sum(value) FILTER (WHERE ...) per column."
        )
    return Refused(
        f"Expected one SELECT over the tables of this file, got {word}. A query reads them; nothing is changed, "
        "written, loaded or attached. Begin with SELECT, WITH or FROM."
    )


def _names(cursor: duckdb.DuckDBPyConnection, query: str, *params: str) -> set[str]:
    return {name.lower() for (name,) in cursor.execute(query, params).fetchall()}


def _check_node(node: dict, tables: set[str], named: set[str]) -> None:
    """tables: those of the file; named: these and what the query itself names. SHOW looks for its own words."""
    kind = node.get("type")
    here = named if kind == "BASE_TABLE" else tables
    if kind in ("BASE_TABLE", "SHOW_REF") and node.get("table_name"):
        name = str(node["table_name"])
        elsewhere = node.get("catalog_name") not in (None, "", database.NAME) or node.get("schema_name") not in (
            None,
            "",
            "main",
        )
        if elsewhere or name.lower() not in here:
            offered = sorted(one for one in here if not schema.is_maps_table(one))
            raise Refused(f"There is no table {name!r} here; there are {', '.join(offered)}.")
    if kind == "TABLE_FUNCTION":
        name = str((node.get("function") or {}).get("function_name", ""))
        if name.lower() not in TABLE_FUNCTIONS:
            raise Refused(
                f"The table function {name!r} is not available here; {', '.join(sorted(TABLE_FUNCTIONS))} are."
            )
    if node.get("class") == "FUNCTION":
        name = str(node.get("function_name", ""))
        if FORBIDDEN_FUNCTIONS.fullmatch(name):
            raise Refused(f"The function {name!r} tells about the server and is not available here.")


def _nodes(value: object) -> Iterator[dict]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _nodes(item)

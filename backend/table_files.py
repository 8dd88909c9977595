"""Tables as files for other programs: Parquet, CSV, JSON.

CSV goes into spreadsheets: a text that one would take for a formula has a ' before it.
"""

from __future__ import annotations

import csv
import io
import json
import math

import pyarrow as pa
import pyarrow.parquet as pq

MEDIA = {
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
}
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")


def as_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def as_csv(table: pa.Table) -> bytes:
    """RFC 4180, UTF-8. NULL and NaN are empty; a text that a spreadsheet would take for a formula has a ' before it."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([_csv_cell(name) for name in table.column_names])
    for batch in table.to_batches(max_chunksize=10_000):
        columns = [[_csv_cell(value) for value in column.to_pylist()] for column in batch.columns]
        writer.writerows(zip(*columns, strict=True))
    return out.getvalue().encode("utf-8", errors="backslashreplace")


def as_json(table: pa.Table) -> bytes:
    """{"columns": [...], "rows": [[...]]}; NaN, infinities and NULL are null, bytes are hexadecimal."""
    columns = [[_json_cell(value) for value in column.to_pylist()] for column in table.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    document = {"columns": table.column_names, "rows": rows}
    return json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


WRITERS = {"parquet": as_parquet, "csv": as_csv, "json": as_json}


def _csv_cell(value: object) -> object:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str) and value.lstrip(" \u00a0\ufeff").startswith(FORMULA_STARTS):
        return "'" + value
    return value


def _json_cell(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""Tables for other programs: the same rows in every form, and no cell that a spreadsheet would run."""

import csv
import io
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backend.table_files import as_csv, as_json
from tests.stored import HOSTILE


def get(served, name):
    answer = served.client.get(f"/data/{served.ids.plain}/{name}")
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("table", ["heads", "rows", "keys", "distances", "coverage", "links", "tokens", "layers"])
def test_every_form_has_the_same_rows(served, table):
    parquet = pq.read_table(io.BytesIO(get(served, f"{table}.parquet").content))
    document = get(served, f"{table}.json").json()
    lines = list(csv.reader(io.StringIO(get(served, f"{table}.csv").content.decode(), newline="")))
    assert parquet.num_rows > 0
    assert document["columns"] == parquet.column_names == lines[0]
    assert len(document["rows"]) == len(lines) - 1 == parquet.num_rows
    assert get(served, f"{table}.csv").headers["content-disposition"].endswith(f'{table}.csv"')


def test_statistics_are_in_the_table_of_heads(served):
    document = get(served, "heads.json").json()
    assert {"kind", "layer", "head", "entropy", "first_mass"} <= set(document["columns"])
    assert len(document["rows"]) == 2 * 4


def test_tokens_give_the_prompt_back(served):
    document = get(served, "tokens.json").json()
    at = document["columns"].index("text")
    assert "".join(row[at] for row in document["rows"]) == HOSTILE


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@a", "\tx", "\rx", " =1", "\ufeff=1", "＝1", "|cmd", "%0"])
def test_case_77_a_csv_cell_cannot_start_a_formula(text):
    cells = list(csv.reader(io.StringIO(as_csv(pa.table({text: [text]})).decode(), newline="")))
    assert cells == [["'" + text], ["'" + text]]


def test_csv_keeps_texts_numbers_and_gaps():
    table = pa.table(
        {"text": ['a,"b"\n', None, "x=1"], "number": [-1.5, math.nan, math.inf], "bytes": [b"\xff", b"", None]}
    )
    lines = list(csv.reader(io.StringIO(as_csv(table).decode(), newline="")))
    assert lines[1:] == [['a,"b"\n', "-1.5", "ff"], ["", "", ""], ["x=1", "inf", ""]]


def test_json_is_valid_where_numbers_are_not():
    assert as_json(pa.table({"x": [math.nan, -math.inf, 0.5]})) == b'{"columns":["x"],"rows":[[null],[null],[0.5]]}'


@pytest.mark.parametrize("name", ["heads.xlsx", "secrets.csv", "maps_self_0.csv", "heads.csv?all=1", 'x"; drop.json'])
def test_other_tables_and_forms_are_refused(served, name):
    answer = served.client.get(f"/data/{served.ids.plain}/{name}")
    assert answer.status_code in (400, 404)
    assert set(answer.json()) == {"error"}


def test_the_file_itself_comes_whole_and_in_parts(served):
    answer = get(served, "analysis.duckdb")
    content = served.shelf.open(served.ids.plain).analysis.path.read_bytes()
    assert answer.content == content
    part = served.client.get(f"/data/{served.ids.plain}/analysis.duckdb", headers={"Range": "bytes=8-11"})
    assert (part.status_code, part.content) == (206, b"DUCK")

"""SQL typed on a page: answered within limits, whatever is typed."""

import pyarrow as pa
import pytest
from store_records import layer_record, store

from backend.errors import Refused
from backend.store import save_study, typed_sql
from backend.store.typed_sql import Limits

SMALL = Limits(seconds=3, megabytes=256, rows=1000)


@pytest.fixture(scope="module")
def analysis(shared_library):
    return shared_library.open(store(shared_library, [layer_record(0), layer_record(1)]))


def test_rows_come_as_the_file_has_them_and_the_limit_is_said(analysis):
    found = typed_sql.answer(analysis, "SELECT * FROM heads ORDER BY layer, head", SMALL)
    assert found.table.to_pylist() == analysis.sql("SELECT * FROM heads ORDER BY layer, head").to_pylist()
    assert not found.cut and found.seconds > 0
    cut = typed_sql.answer(analysis, "SELECT * FROM range(5000)", SMALL)
    assert cut.cut and cut.table["range"].to_pylist() == list(range(1000))
    whole = typed_sql.answer(analysis, "SELECT * FROM range(1000)", SMALL)
    assert not whole.cut and whole.table.num_rows == 1000
    assert typed_sql.answer(analysis, "SELECT 1 AS x WHERE false", SMALL).table.num_rows == 0


def test_names_are_told_apart_and_odd_types_are_texts(analysis):
    text = "SELECT 1::HUGEINT AS a, {'b': 1} AS a, [1, 2] AS c, '\\xff'::BLOB AS d, 1.5 AS e, true AS f, NULL AS g"
    table = typed_sql.answer(analysis, text, SMALL).table
    assert table.column_names == ["a", "a_2", "c", "d", "e", "f", "g"]
    (row,) = table.to_pylist()
    assert (row["a_2"], row["c"], row["d"], row["f"], row["g"]) == ("{'b': 1}", "[1, 2]", "ff", True, None)


# What each takes past DuckDB's own limit of memory, or past any patience.
GREEDY = {
    "a long text": "SELECT repeat('x', 1500000000)",
    "a text out of texts": "SELECT length(repeat(repeat('x', 500000000), 4))",
    "a long list": "SELECT list_resize([1], 500000000)",
    "a list of numbers": "SELECT len(range(500000000))",
    "padding": "SELECT lpad('x', 2000000000, 'y')",
    "grouping": "SELECT list(a.range) FROM range(100000) a, range(10000) b",
    "sorting": "SELECT a.range FROM range(100000000) a ORDER BY random()",
    "a product of tables": "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000) c",
    "rows that are large": "SELECT repeat('x', 1000000) FROM range(2000)",
    "endless recursion": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
}


@pytest.mark.parametrize("what", GREEDY)
def test_a_query_takes_its_memory_and_its_time_and_no_more(analysis, what):
    """Also where DuckDB itself would not stop: the process that runs it is limited, and ended."""
    with pytest.raises(Refused, match=r"needs more than 256 MB of memory|was stopped: it took more than 3 s"):
        typed_sql.answer(analysis, GREEDY[what], SMALL)
    assert typed_sql.answer(analysis, "SELECT count(*) AS n FROM rows", SMALL).table["n"].to_pylist() == [160]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT nothing FROM rows",
        "SELECT 'x'::INTEGER",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM duckdb_settings()",
        "SELECT 1; SELECT 2",
        "COPY rows TO '/tmp/x'",
        "\x00",
        "SELECT '\ud800'",
    ],
)
def test_what_is_wrong_or_not_allowed_is_said(analysis, text):
    with pytest.raises(Refused) as refused:
        typed_sql.answer(analysis, text, SMALL)
    assert str(analysis.path.parent) not in str(refused.value) and "Traceback" not in str(refused.value)


@pytest.mark.parametrize("view", ["duckdb_databases", "pragma_database_list", "sqlite_master"])
def test_a_view_of_duckdb_is_not_reached_under_the_name_of_a_part_of_the_query(analysis, view):
    text = f"SELECT d.* FROM {view} d, (WITH {view} AS (SELECT 1 AS a) SELECT a FROM {view}) t"
    with pytest.raises(Refused, match="another name"):
        typed_sql.answer(analysis, text, SMALL)


def test_the_schema_is_that_of_the_file_without_its_arrays(analysis):
    tables = typed_sql.tables(analysis)
    assert set(tables) == set(analysis.tables())
    assert [column.name for column in tables["info"]] == ["name", "value"]
    assert {column.name: column.type for column in tables["heads"]}["entropy"] == "DOUBLE"


def test_a_study_is_asked_like_an_analysis(library):
    study = library.open(save_study(library, "s", {}, [], {"scores": pa.table({"head": [0, 1], "score": [0.5, None]})}))
    found = typed_sql.answer(study, "SELECT max(score) AS best FROM scores", SMALL)
    assert found.table.to_pylist() == [{"best": 0.5}] and list(typed_sql.tables(study)) == ["info", "scores"]

"""SQL that people type reaches the tables of the analysis and nothing else."""

import pytest
from store_records import layer_record, store

from backend.errors import Refused
from backend.store import query


@pytest.fixture(scope="module")
def analysis(shared_library):
    return shared_library.open(store(shared_library, [layer_record(0), layer_record(1)]))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT layer, head, avg(entropy) AS e FROM rows GROUP BY ALL ORDER BY e DESC LIMIT 3",
        "FROM heads",
        "WITH strong AS (SELECT * FROM keys WHERE received_mean > 0.1) SELECT count(*) FROM strong",
        "SELECT t.label, r.entropy FROM rows r JOIN tokens t ON t.position = r.query WHERE layer = 1",
        "SELECT * FROM range(3), (VALUES (1), (2)) AS v(x)",
        "SELECT (SELECT max(entropy) FROM rows), quantile_cont(entropy, 0.5) FROM rows",
        "SELECT part, head, codec, octet_length(data) FROM maps_0",
        "DESCRIBE rows",
        "SUMMARIZE heads",
        "SELECT 'duckdb_settings() is only a text; so is this' AS x -- comment",
        "WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 5) SELECT * FROM up",
        "SELECT unnest([1, 2, 3]) AS x",
        "SELECT * FROM analysis.main.rows LIMIT 1",
    ],
)
def test_questions_about_the_tables_are_answered(analysis, text):
    assert analysis.sql(text).num_rows > 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "SELECT 1; SELECT 2",
        "DROP TABLE rows",
        "INSERT INTO rows VALUES (1)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "SET threads = 1",
        "RESET memory_limit",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "ATTACH '/tmp/other.db'",
        "USE memory",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "COPY rows TO 'x.parquet'",
        "EXPORT DATABASE '/tmp/x'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CHECKPOINT",
        "SHOW DATABASES",
        "SHOW TABLES",
        "SHOW ALL TABLES",
        "EXPLAIN SELECT 1",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('analysis.duckdb')",
        "SELECT * FROM glob('*')",
        "SELECT * FROM duckdb_databases()",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM (SELECT path FROM duckdb_databases())",
        "SELECT (SELECT max(path) FROM duckdb_databases())",
        "WITH x AS (SELECT * FROM duckdb_settings()) SELECT * FROM x",
        "SELECT * FROM duckdb_databases",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM pragma_storage_info('rows')",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM system.information_schema.tables",
        "SELECT * FROM pg_catalog.pg_settings",
        "SELECT * FROM sqlite_master",
        "SELECT path FROM duckdb_databases d, (WITH duckdb_databases AS (SELECT 1 a) SELECT a FROM duckdb_databases) t",
        "WITH duckdb_databases AS (SELECT path FROM duckdb_databases) SELECT path FROM duckdb_databases",
        "SELECT file FROM PRAGMA_database_list p, (WITH Pragma_Database_List AS (SELECT 1 a) SELECT 1 a) t",
        "SELECT s.sql FROM sqlite_master s, (WITH sqlite_master AS MATERIALIZED (SELECT 1 a) SELECT 1 a) t",
        "SELECT name FROM pg_settings s, (WITH RECURSIVE pg_settings(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM "
        "pg_settings WHERE n < 3) SELECT n FROM pg_settings) t",
        'SELECT * FROM (SHOW DATABASES), (WITH """databases""" AS (SELECT 1 a) SELECT 1 a) t',
        "SELECT * FROM memory.main.rows",
        "SELECT * FROM query('SELECT * FROM duckdb_settings()')",
        "SELECT * FROM query_table('duckdb_settings')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT current_setting('memory_limit')",
        "SELECT CURRENT_SETTING('temp_directory') FROM rows",
        "SELECT getenv('HOME')",
        "SELECT getvariable('x')",
        "SELECT version()",
        "SELECT current_database()",
        "SELECT json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT rows.entropy FROM rows WHERE rows.layer = (SELECT count(*) FROM duckdb_tables())",
        "SELECT no_such_column FROM rows",
        "SELECT 'x'::INTEGER",
        "SELECT " + "1," * 20_000 + "1",
    ],
)
def test_everything_else_is_refused(analysis, text):
    with pytest.raises(Refused):
        analysis.sql(text)
    assert analysis.sql("SELECT count(*) AS n FROM rows")["n"].to_pylist() == [160]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DROP TABLE rows", "got DROP. "),
        ("-- first\n/* x; */ copy rows TO 'x.parquet'", "got COPY. "),
        ("INSTALL httpfs", "got INSTALL. "),
        ("ATTACH '/tmp/other.db'", "got ATTACH. "),
        ("(( PRAGMA", "cannot be read: "),
        ("PRAGMA database_list", "got PRAGMA. "),
        ("SELECT 1; DROP TABLE rows", "got more than one statement. "),
        ("SELECT 1; SELECT 2", "got 2 statements. "),
        ("-- nothing", "got no statements. "),
        ("PIVOT heads ON head", "PIVOT is not available here. Write it as SELECT"),
        ("SELECT * FRM heads", "cannot be read: "),
        ("SELECT * FROM nothing", "There is no table 'nothing' here; there are coverage, "),
        ("SELECT nothing FROM heads", "cannot be answered: "),
    ],
)
def test_what_is_refused_is_told_in_words_of_our_own(analysis, text, said):
    with pytest.raises(Refused) as refused:
        analysis.sql(text)
    sentence = str(refused.value)
    assert said in sentence
    assert not any(inner in sentence for inner in ("maps_", "serialize", "json", "!", "/tmp"))


def test_values_are_given_apart_from_the_query(analysis):
    found = analysis.sql("SELECT ? AS text, count(*) AS n FROM rows WHERE layer = ?", ["'; DROP TABLE rows", 1])
    assert found.to_pylist() == [{"text": "'; DROP TABLE rows", "n": 80}]
    assert analysis.sql("SELECT $a AS a", {"a": 5}).to_pylist() == [{"a": 5}]


def test_a_query_that_runs_too_long_is_stopped(analysis):
    with pytest.raises(Refused, match="was stopped"):
        analysis.sql("SELECT sum(a.range * b.range) FROM range(10_000_000) a, range(10_000_000) b", seconds=0.3)
    with pytest.raises(Refused, match="was stopped"):
        analysis.sql("SELECT * FROM range(100_000_000_000)", seconds=0.3)


def test_a_result_that_is_too_large_is_refused(analysis, monkeypatch):
    monkeypatch.setattr(query, "LARGEST_RESULT", 1_000_000)
    with pytest.raises(Refused, match="larger than 1 MB"):
        analysis.sql("SELECT * FROM range(1_000_000)")

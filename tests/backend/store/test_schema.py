"""Numbered versions: old files are read as new ones and stay as they are; newer ones are refused."""

import sys

import duckdb
import pytest

from backend.errors import NewerFile
from backend.store import database, schema

FIRST = 'TABLES = {"info": {"name": "VARCHAR", "value": "VARCHAR"}, "rows": {"query": "INTEGER", "surprise": "FLOAT"}}'
SECOND = """
TABLES = {"info": {"name": "VARCHAR", "value": "VARCHAR"}, "rows": {"query": "INTEGER", "entropy": "FLOAT"}}
FROM_PREVIOUS = {"rows": "SELECT query, surprise AS entropy FROM {table}"}
"""
THIRD = """
TABLES = {"rows": {"query": "INTEGER", "entropy": "FLOAT", "bits": "FLOAT"}, "notes": {"text": "VARCHAR"}}
FROM_PREVIOUS = {
    "rows": "SELECT *, entropy / ln(2) AS bits FROM {table}",
    "notes": "SELECT NULL::VARCHAR AS text WHERE false",
}
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder of three numbered versions, as this project's own would look later on."""
    name = "headwater_versions"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for file, text in (("v001_first", FIRST), ("v002_entropy", SECOND), ("v003_bits", THIRD)):
        (folder / f"{file}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    schema.versions.cache_clear()
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


def old_file(path, version, columns):
    with duckdb.connect(str(path)) as file:
        file.execute("CREATE TABLE info (name VARCHAR, value VARCHAR)")
        file.execute("INSERT INTO info VALUES ('schema_version', ?)", [str(version)])
        file.execute(f"CREATE TABLE rows ({columns})")
        file.execute("INSERT INTO rows SELECT range, range * 0.5 FROM range(4)")
    return path.read_bytes()


@pytest.mark.parametrize(
    ("version", "columns"), [(1, "query INTEGER, surprise FLOAT"), (2, "query INTEGER, entropy FLOAT")]
)
def test_an_old_file_is_read_as_a_new_one_and_not_touched(tmp_path, package, version, columns):
    path = tmp_path / "analysis.duckdb"
    before = old_file(path, version, columns)
    connection = database.reading(path)
    connection.execute(f"USE {database.NAME}")
    for view in schema.reading_views(version, database.NAME, package):
        connection.execute(view)
    assert connection.execute("SELECT query, entropy, round(bits, 4) FROM rows ORDER BY query").fetchall()[2:] == [
        (2, 1.0, 1.4427),
        (3, 1.5, 2.1640),
    ]
    assert connection.execute("SELECT * FROM notes").fetchall() == []
    connection.close()
    assert path.read_bytes() == before


def test_a_current_file_needs_no_views_and_a_newer_one_is_refused(package):
    assert schema.current(package) == 3 and schema.reading_views(3, "analysis", package) == []
    schema.check_version(3, package)
    with pytest.raises(NewerFile, match="schema version 4; this Headwater reads versions up to 3"):
        schema.check_version(4, package)


def test_a_gap_in_the_numbers_is_a_mistake(tmp_path, package):
    (tmp_path / package / "v002_entropy.py").unlink()
    schema.versions.cache_clear()
    with pytest.raises(RuntimeError, match=r"found \[1, 3\]"):
        schema.versions(package)


def test_the_projects_own_versions_say_what_changed():
    for number, module in schema.versions().items():
        assert module.__doc__ and (number == 1 or module.FROM_PREVIOUS)
        assert set(module.TABLES) >= {"info", "tokens", "layers", "rows", "keys", "heads"}

"""Files from elsewhere: taken whole after a full check, or refused with the reason."""

import hashlib
import shutil
import sqlite3
import threading
import zipfile
from contextlib import closing

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from store_records import layer_record, run_record, store

from backend.errors import Damaged, HeadwaterError, NewerFile, NotFound, Refused
from backend.settings import bundled_folder
from backend.store import AnalysisWriter, Library, import_limits, save_study
from kernels.score import ScoreSpec


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A file that another library exported, and that library."""
    folder = tmp_path_factory.mktemp("elsewhere")
    elsewhere = Library(folder)
    records = [
        layer_record(0, n=150, score=ScoreSpec(scale=0.3, window=9)),
        layer_record(1, n=150, exact=(0,), top=3),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backend.store.exact.SMALL_ANALYSIS", 0)
        id = store(elsewhere, records, title="theirs")
    return elsewhere.export(id, folder / "foreign.duckdb"), elsewhere


@pytest.fixture
def foreign(exported, tmp_path):
    """The same, and the function that changes a copy of the file."""
    path, elsewhere = exported

    def changed(*statements: str):
        copy = tmp_path / "changed.duckdb"
        shutil.copyfile(path, copy)
        with duckdb.connect(str(copy)) as file:
            for statement in statements:
                file.execute(statement)
        return copy

    return path, changed, elsewhere


def test_an_exported_file_comes_in_under_a_new_id(library, foreign):
    path, _, elsewhere = foreign
    before = path.read_bytes()
    id = library.import_file(path)
    theirs = elsewhere.open(elsewhere.list()[0].id)
    assert id != theirs.id and np.array_equal(library.open(id).map(0, 1), theirs.map(0, 1))
    assert library.entry(id).imported and library.entry(id).title == "The quick brown fox"
    assert path.read_bytes() == before


def test_the_same_file_twice_at_once_gives_two_entries(library, foreign):
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(library.import_file(foreign[0]))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 3 == len(library.list())


def test_an_imported_key_never_answers_a_run(library, foreign):
    _, changed, _ = foreign
    path = changed("INSERT INTO info VALUES ('cache_key', '\"poison\"')")
    library.import_file(path)
    assert library.find("poison") is None


HOSTILE = {
    "a view": "CREATE VIEW extra AS SELECT * FROM rows",
    "a view in the place of a table": "ALTER TABLE links RENAME TO links_; CREATE VIEW links AS SELECT * FROM links_",
    "a macro": "CREATE MACRO harmless() AS current_setting('memory_limit')",
    "a table macro": "CREATE MACRO harmless() AS TABLE SELECT 1",
    "a sequence": "CREATE SEQUENCE s",
    "a type": "CREATE TYPE mood AS ENUM ('good')",
    "an index": "CREATE INDEX i ON rows(query)",
    "a schema": "CREATE SCHEMA other",
    "a table too many": "CREATE TABLE extra (x INTEGER)",
    "a column too many": "ALTER TABLE rows ADD COLUMN extra INTEGER",
    "a column less": "ALTER TABLE rows DROP COLUMN entropy",
    "another type": "ALTER TABLE rows ALTER entropy TYPE VARCHAR",
    "a default": "ALTER TABLE rows ALTER entropy SET DEFAULT 7",
    "a statistic that is text": "ALTER TABLE heads ADD COLUMN note VARCHAR",
    "a statistic with an odd name": 'ALTER TABLE heads ADD COLUMN "x; drop" DOUBLE',
    "a row outside the map": "UPDATE rows SET query = 150 WHERE query = 149",
    "a negative row": "UPDATE links SET key = -1",
    "a head too many": "UPDATE rows SET head = 4 WHERE head = 3",
    "a layer that is not there": "UPDATE distances SET layer = 9",
    "a row less": "DELETE FROM rows WHERE query = 3 AND head = 1",
    "a token less": "DELETE FROM tokens WHERE position = 20",
    "a token twice": "UPDATE tokens SET position = 5 WHERE position = 6",
    "another number of tokens": "UPDATE info SET value = '151' WHERE name = 'n_tokens'",
    "no heads": "UPDATE layers SET heads = 0",
    "key heads that do not divide": "UPDATE layers SET key_heads = 3",
    "a kind that does not exist": "UPDATE layers SET kind = 'x'",
    "no numbers": "UPDATE layers SET head_dim = NULL",
    "a table of arrays that is none": "UPDATE layers SET maps = 'rows'",
    "an array of another shape": "UPDATE maps_0 SET shape = [149, 8] WHERE part = 'query'",
    "an array that is too long": "UPDATE maps_0 SET data = data || 'x' WHERE part = 'key'",
    "an unknown codec": "UPDATE maps_0 SET codec = 'pickle' WHERE part = 'lse'",
    "an unknown part": "UPDATE maps_0 SET part = 'code' WHERE part = 'lse' AND head = 0",
    "queries without keys": "DELETE FROM maps_0 WHERE part = 'key'",
    "an array twice": "INSERT INTO maps_0 SELECT * FROM maps_0 WHERE part = 'lse' AND head = 0",
    "a huge picture": "UPDATE maps_0 SET shape = [100000, 100000] WHERE part = 'pooled_mean'",
    "a row twice": "UPDATE rows SET query = 3 WHERE query = 4 AND head = 1 AND layer = 0",
    "a key twice": "UPDATE keys SET key = 3 WHERE key = 4 AND head = 1 AND layer = 0",
    "a head twice": "UPDATE heads SET head = 1 WHERE head = 2",
    "a link twice": "INSERT INTO links SELECT * FROM links LIMIT 1",
    "a row of no query": "UPDATE rows SET query = NULL WHERE query = 3 AND head = 1",
    "a key of no head": "UPDATE keys SET head = NULL WHERE key = 3",
    "a head less": "DELETE FROM heads WHERE head = 2",
    "a distance outside": "UPDATE distances SET distance = 300 WHERE distance = 3",
    "a token without a label": "UPDATE tokens SET label = NULL WHERE position = 3",
    "a token without a text": "UPDATE tokens SET text = NULL WHERE position = 3",
    "a token of no side": "UPDATE tokens SET side = NULL WHERE position = 149",
    "a segment without a name": "UPDATE segments SET name = NULL",
    "a layer without a module": "UPDATE layers SET module = NULL",
    "a lse that is no number": "UPDATE rows SET lse = 'nan' WHERE query = 3",
    "a fact twice": "INSERT INTO info SELECT * FROM info WHERE name = 'model'",
    "no layer": "DELETE FROM layers",
    "two sides of one stack": "UPDATE tokens SET side = 'source', position = position - 75 WHERE position >= 75",
    "other numbers of positions": "UPDATE layers SET queries = 149",
    "a token of no segment": "UPDATE tokens SET segment = 1",
    "a layer of no map in hidden": "UPDATE hidden SET layer = 7",
    "a position outside the text": "UPDATE predictions SET position = 150",
    "segments outside the text": "UPDATE segments SET stop = 151",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_anything_that_no_writer_makes_is_refused(library, foreign, what):
    with pytest.raises(Refused, match="was not imported: it is no analysis as Headwater writes it"):
        library.import_file(foreign[1](HOSTILE[what]))
    assert library.list() == [] and not list(library.path.rglob("*.duckdb"))
    assert list((library.path / "analyses").iterdir()) == []


MARKED = "**[x](https://example.org)**"


@pytest.mark.parametrize("change", [f'scores RENAME TO "{MARKED}"', f'scores RENAME COLUMN score TO "{MARKED}"'])
def test_names_in_a_study_are_plain(library, exported, tmp_path, change):
    """They are shown on pages and typed into queries."""
    study = exported[1].open(save_study(exported[1], "s", {}, [], {"scores": pa.table({"score": [0.5]})}))
    copy = shutil.copyfile(study.path, tmp_path / "changed.duckdb")
    assert library.import_file(copy)
    with duckdb.connect(str(copy)) as file:
        file.execute(f"ALTER TABLE {change}")
    with pytest.raises(Refused, match="names of small letters, digits and _"):
        library.import_file(copy)


DAMAGED = {
    "other bytes": "UPDATE maps_0 SET data = encode(repeat('x', octet_length(data)::INT)) WHERE part = 'query'",
    "a rule that is none": 'UPDATE layers SET score = \'{"scale": "x"}\'',
    "a rule with an unknown field": 'UPDATE layers SET score = \'{"scale": 1, "code": "import os"}\'',
    "no rule": "UPDATE layers SET score = NULL",
    "facts that are no JSON": "UPDATE info SET value = '{' WHERE name = 'model'",
    "facts without an end": "UPDATE info SET value = repeat('[', 100000) WHERE name = 'model'",
    "no version": "DELETE FROM info WHERE name = 'schema_version'",
    "no table of facts": "DROP TABLE info",
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damage_is_named(library, foreign, what):
    with pytest.raises(Damaged):
        library.import_file(foreign[1](DAMAGED[what]))
    assert library.list() == []


def test_a_newer_file_is_refused_with_both_versions(library, foreign):
    with pytest.raises(NewerFile, match="version 8; this Headwater reads versions up to 1"):
        library.import_file(foreign[1]("UPDATE info SET value = '8' WHERE name = 'schema_version'"))


def sqlite_file(path):
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE info (name TEXT, value TEXT)")
        file.execute("INSERT INTO info VALUES ('schema_version', '1')")
        file.commit()


def zip_file(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("analysis.duckdb", bytes(50_000_000))


OTHERS = {
    "nothing": lambda path: path.write_bytes(b""),
    "a PDF": lambda path: path.write_bytes(b"%PDF-1.4"),
    "zeros": lambda path: path.write_bytes(bytes(20_000)),
    "a page": lambda path: path.write_text("<html><script>alert(1)</script>" * 100),
    "SQLite": sqlite_file,
    "a packed file": zip_file,
    "only the beginning": lambda path: path.write_bytes(bytes(8) + b"DUCK" + bytes(5000)),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_file_of_another_kind_is_refused(library, tmp_path, what):
    OTHERS[what](tmp_path / "x")
    with pytest.raises(HeadwaterError, match="no DuckDB file") as refused:
        library.import_file(tmp_path / "x")
    assert str(tmp_path) not in str(refused.value)
    assert library.list() == []


def test_a_log_sum_exp_that_is_no_number_is_refused(library, exported, tmp_path):
    path = tmp_path / "changed.duckdb"
    shutil.copyfile(exported[0], path)
    nothing = np.full(150, np.nan, "<f4").tobytes()
    with duckdb.connect(str(path)) as file:
        file.execute(
            "UPDATE maps_0 SET data = ?, checksum = ? WHERE part = 'lse' AND head = 1",
            [nothing, hashlib.sha256(nothing).hexdigest()],
        )
    with pytest.raises(Refused, match="log-sum-exps of head 1 that are numbers, found 150 that are none"):
        library.import_file(path)


def test_a_file_above_the_limit_is_refused_before_it_is_read(library, foreign, monkeypatch):
    monkeypatch.setenv("HEADWATER_IMPORT_MB", "0")
    with pytest.raises(Refused, match="at most 0 MB are taken"):
        library.import_file(foreign[0])


BOMBS = {
    "texts": "UPDATE tokens SET text = repeat('a', 1000000)",
    "facts": "INSERT INTO info SELECT 'x' || range, '\"' || repeat('a', 1000000) || '\"' FROM range(100)",
}


@pytest.mark.parametrize("what", BOMBS)
def test_few_bytes_that_say_much_are_refused(library, foreign, what):
    """Equal values take next to no room in a DuckDB file."""
    path = foreign[1](BOMBS[what], "CHECKPOINT")
    assert path.stat().st_size < 20_000_000
    with pytest.raises(Refused, match="at most 64,000,000 bytes of texts"):
        library.import_file(path)


def test_more_rows_or_arrays_than_the_file_can_hold_are_refused(library, foreign, monkeypatch):
    monkeypatch.setattr(import_limits, "MOST_ROWS", 1000)
    with pytest.raises(Refused, match="at most 1,000 rows"):
        library.import_file(foreign[0])
    monkeypatch.undo()
    monkeypatch.setattr(import_limits, "EXPANSION", -(10**9))
    with pytest.raises(Refused, match="arrays that fit into"):
        library.import_file(foreign[0])


def test_a_check_that_takes_too_long_is_stopped(tmp_path):
    with duckdb.connect() as connection, pytest.raises(Refused, match="took more than 0 s"):
        with import_limits.stopped(connection, 0.2):
            connection.execute("SELECT sum(a.range * b.range) FROM range(10_000_000) a, range(10_000_000) b").fetchall()


def test_a_file_that_is_not_there_is_said_without_its_path(library, tmp_path):
    with pytest.raises(NotFound, match="no file 'secret'"):
        library.import_file(tmp_path / "secret")
    with pytest.raises(NotFound):
        library.import_file(tmp_path)


def test_a_copy_of_what_ships_gets_an_id_nobody_can_guess(library, tmp_path):
    shipped = Library(tmp_path / "shipped")
    with AnalysisWriter(shipped, id="bundled-story") as writer:
        writer.layer(layer_record())
        writer.publish(run_record(layer_record().query.shape[1]), title="A story")
    copy = library.save(shipped.open("bundled-story"))
    assert len(copy) == 24
    assert [(entry.id, entry.title) for entry in library.list()] == [(copy, "A story")]


@pytest.mark.parametrize("name", ["bundled-story", "bundled-documents"])
def test_what_ships_can_be_handed_on(library, name):
    """Files that the whole pipeline made pass every check."""
    shipped = Library(bundled_folder(), read_only=True)
    id = library.import_file(shipped.open(name).path)
    assert np.array_equal(library.open(id).map(3, 1), shipped.open(name).map(3, 1))

"""Files from elsewhere: taken whole after a full check, or refused with the reason."""

import shutil
import threading

import duckdb
import numpy as np
import pytest
from store_records import layer_record, run_record, store

from backend.errors import Damaged, HeadwaterError, NewerFile, NotFound, Refused
from backend.store import AnalysisWriter, Library
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


@pytest.mark.parametrize("content", [b"", b"%PDF-1.4", b"\x00" * 20_000])
def test_a_file_of_another_kind_is_refused(library, tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(HeadwaterError):
        library.import_file(tmp_path / "x")
    assert library.list() == []


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

"""A damaged file says what is damaged; the rest of it is still right."""

import hashlib
import shutil

import duckdb
import numpy as np
import pytest
from store_records import layer_record, store

from backend.errors import Damaged, HeadwaterError, NewerFile
from backend.store import Library, files
from kernels.window import weights


@pytest.fixture
def stored(library, monkeypatch):
    monkeypatch.setattr("backend.store.exact.SMALL_ANALYSIS", 0)
    records = [layer_record(i, n=150, dim=32) for i in range(3)]
    id = store(library, records)
    return library, id, records


def altered(library: Library, id: str, statement: str) -> None:
    """Changes the published file behind the library's back, as no program of ours does."""
    path = library.folder(id) / files.FILE
    copy = path.with_name("altered")
    shutil.copyfile(path, copy)
    with duckdb.connect(str(copy)) as file:
        file.execute(statement)
    copy.replace(path)


def test_an_array_whose_bytes_changed_is_named_and_the_others_are_there(stored):
    library, id, _ = stored
    altered(library, id, "UPDATE maps_0 SET data = data || '\\x00' WHERE part = 'query' AND layer = 1 AND head = 2")
    analysis = library.open(id)
    with pytest.raises(Damaged, match=r"queries of head 1\.2: the bytes do not have the checksum.*rest can still"):
        analysis.map(1, 2)
    with pytest.raises(Damaged, match=r"queries of head 1\.2"):
        analysis.pooled(1, 2, 50)
    assert analysis.pooled(1, 2).shape == (128, 128)  # the stored picture
    assert analysis.map(1, 3).shape == analysis.map(0, 2).shape == (150, 150)
    assert analysis.rows(layer=1, head=2).num_rows == 150


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM maps_0 WHERE part = 'key' AND layer = 0 AND head = 0", "found 0"),
        ("UPDATE maps_0 SET codec = 'pickle' WHERE part = 'lse' AND layer = 0", "log-sum-exps of head 0.1: expected"),
        ("UPDATE maps_0 SET shape = [1, 1] WHERE part = 'key' AND layer = 0", "keys of key head 0.0: expected int16"),
        ("UPDATE layers SET score = '{}' WHERE layer = 0", "rule of this layer's weights cannot be read"),
        ("UPDATE layers SET maps = 'rows' WHERE layer = 0", "unknown table"),
        ("UPDATE info SET value = '{' WHERE name = 'model'", "facts about the run are damaged"),
    ],
)
def test_what_does_not_fit_is_damage_and_never_a_wrong_map(stored, statement, says):
    library, id, _ = stored
    altered(library, id, statement)
    with pytest.raises(Damaged, match=says):
        library.open(id).map(0, 1)


def test_a_flipped_byte_anywhere_gives_the_right_map_or_says_damaged(stored):
    library, id, records = stored
    path = library.folder(id) / files.FILE
    whole = path.read_bytes()
    n = slice(0, 150)
    truth = {
        r.info.layer: weights(r.query[None], r.key[None], r.score, r.lse[None].float(), n, n)[0].numpy()
        for r in records
    }
    random = np.random.default_rng(0)
    damaged = right = 0
    for position in random.integers(0, len(whole), 25).tolist():
        content = bytearray(whole)
        content[position] ^= 0x5A
        other = path.with_name("other")
        other.write_bytes(content)
        other.replace(path)
        for layer in range(3):
            try:
                found = Library(library.path).open(id).map(layer, 1)
                assert np.abs(found - truth[layer][1]).max() < 2e-3
                right += 1
            except Damaged as error:
                assert id in str(error) or "cannot be opened" in str(error) or "no analysis" in str(error)
                damaged += 1
    assert damaged > 0 and right > damaged


@pytest.mark.parametrize("content", [b"", b"no database", b"\x00" * 5000])
def test_a_file_that_is_no_database_is_listed_and_says_so(library, content):
    good = store(library, [layer_record()])
    id = store(library, [layer_record()])
    path = library.folder(id) / files.FILE
    path.with_name("x").write_bytes(content)
    path.with_name("x").replace(path)
    with pytest.raises(Damaged, match="cannot be opened"):
        library.open(id)
    assert {entry.id for entry in library.list()} == {good, id}
    library.delete(id)
    assert [entry.id for entry in library.list()] == [good]


def test_case_70_a_newer_file_is_refused_with_both_versions_and_not_touched(stored):
    library, id, _ = stored
    altered(library, id, "UPDATE info SET value = '7' WHERE name = 'schema_version'")
    path = library.folder(id) / files.FILE
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(NewerFile, match="schema version 7; this Headwater reads versions up to 1"):
        library.open(id)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    altered(library, id, "UPDATE info SET value = '\"one\"' WHERE name = 'schema_version'")
    with pytest.raises(Damaged, match="no schema version"):
        library.open(id)


def test_case_70_a_file_of_a_newer_duckdb_is_refused_with_its_reason(stored):
    library, id, _ = stored
    path = library.folder(id) / files.FILE
    content = bytearray(path.read_bytes())
    magic = content.index(b"DUCK")
    content[magic + 4 : magic + 12] = (99_999).to_bytes(8, "little")  # the storage version of the main header
    other = path.with_name("other")
    other.write_bytes(content)
    other.replace(path)
    with pytest.raises(HeadwaterError, match=r"99999|damaged") as caught:
        library.open(id)
    assert isinstance(caught.value, NewerFile | Damaged) and duckdb.__version__

"""The library: listed, searched, labelled, deleted and brought back, by any number of processes."""

import json
import os
import time

import duckdb
import pyarrow as pa
import pytest
from store_records import layer_record, run_record, store

from backend.errors import HeadwaterError, NotFound, StoreError
from backend.store import AnalysisWriter, Library, Study, TemporaryLibrary, files, ids, save_study, sidecar

HOSTILE = '<img src=x onerror=alert(1)> =1+1 "; DROP TABLE rows; -- ../../etc 世界 \u202e'


def stored(library, day, **info):
    return store(library, [layer_record()], run_record(created_at=f"2026-01-{day:02}T00:00:00+00:00", **info))


def test_the_list_is_newest_first_and_knows_the_facts(library):
    first, third, second = (stored(library, day) for day in (1, 3, 2))
    entries = library.list()
    assert [entry.id for entry in entries] == [third, second, first]
    entry = entries[0]
    assert (entry.n_tokens, entry.n_layers, entry.model, entry.type) == (20, 1, "random", "analysis")
    assert entry.bytes == (library.folder(third) / files.FILE).stat().st_size
    assert library.storage_used() == sum(e.bytes for e in entries)
    assert entry.title == "The quick brown fox" and entry.visibility == "link" and not entry.pinned


def test_search_filter_and_sort(library):
    cat = stored(library, 1, prompt={"text": "A cat and nothing else"}, model="small")
    dog = stored(library, 2, prompt={"documents": ["About a Dog", "Of cats"], "question": "Who?"})
    library.update(cat, tags=["animals", "short"], pinned=True, notes="seen again")
    found = {
        "cat": [cat, dog],
        "CATS who": [dog],
        "animals": [cat],
        "again": [cat],
        "small": [cat],
        "user": [],
    }
    for words, wanted in found.items():
        assert sorted(e.id for e in library.list(search=words)) == sorted(wanted), words
    assert [e.id for e in library.list(tags=["short", "animals"])] == [cat] and library.list(tags=["none"]) == []
    assert [e.id for e in library.list(model="small")] == [e.id for e in library.list(pinned=True)] == [cat]
    assert [e.id for e in library.list(sort="title", descending=False)] == [cat, dog]
    assert library.list(type="study") == []
    with pytest.raises(HeadwaterError, match="sort: expected one of"):
        library.list(sort="; drop")


def test_what_may_change_changes_and_the_file_does_not(library):
    id = stored(library, 1)
    before = (library.folder(id) / files.FILE).read_bytes()
    library.update(id, title=HOSTILE, tags=[" a ", "a", ""], notes="n\n2", pinned=True, visibility="private")
    library.update(id, heads={"0.1": {"label": "sink", "pinned": True}, "0.2": {"note": "odd"}})
    library.update(id, heads={"0.2": {}})
    other = Library(library.path)
    entry, details = other.entry(id), other.details(id)
    assert entry.title == HOSTILE and entry.tags == ("a",) and entry.pinned and entry.visibility == "private"
    assert details.heads == {"0.1": {"label": "sink", "pinned": True}} and details.notes == "n\n2"
    assert (library.folder(id) / files.FILE).read_bytes() == before
    assert library.list()[0].title == HOSTILE


@pytest.mark.parametrize(
    "changes",
    [
        {"title": 5},
        {"title": "x" * 30_000},
        {"tags": "one"},
        {"tags": [1]},
        {"pinned": "yes"},
        {"visibility": "public"},
        {"heads": {"a.b": {"label": "x"}}},
        {"heads": {"0.1": {"colour": "red"}}},
        {"heads": {"0.1": {"label": 3}}},
        {"heads": ["0.1"]},
    ],
)
def test_changes_that_make_no_sense_are_refused(library, changes):
    id = stored(library, 1)
    before = library.details(id)
    with pytest.raises(HeadwaterError, match="expected"):
        library.update(id, **changes)
    assert library.details(id) == before


def test_a_deleted_analysis_comes_back_until_it_is_purged(library):
    id, kept = stored(library, 1), stored(library, 2)
    library.update(id, title="mine")
    library.delete(id)
    assert [e.id for e in library.list()] == [kept] and not list(library.path.rglob(f"{id}/*.duckdb"))
    with pytest.raises(NotFound):
        library.open(id)
    library.restore(id)
    assert library.open(id).map(0, 0).shape == (20, 20) and library.entry(id).title == "mine"
    with pytest.raises(NotFound, match="cannot be restored"):
        library.restore(id)
    library.delete(id)
    assert library.clean_up() == 0
    assert library.clean_up(undo_seconds=0) == 1
    with pytest.raises(NotFound, match="cannot be restored"):
        library.restore(id)
    assert not (library.path / "analyses" / id).exists() and not (library.path / "trash" / id).exists()


def test_a_folder_that_lets_nothing_be_deleted_keeps_the_analysis(library):
    id = stored(library, 1)
    (library.path / "trash").write_text("in the way")
    with pytest.raises(StoreError, match=r"stays where it is .* Make the data folder writable"):
        library.delete(id)
    assert library.open(id).info["n_tokens"] == 20


def test_one_entry_that_cannot_be_read_costs_no_other(library):
    first, second = stored(library, 1), stored(library, 2)
    (library.folder(first) / sidecar.FILE).unlink()
    (library.folder(first) / sidecar.FILE).mkdir()
    assert [entry.id for entry in Library(library.path).list()] == [second]


def test_a_delete_that_was_killed_half_way_is_finished(library):
    id = stored(library, 1)
    folder = library.folder(id)
    (folder / files.FILE).replace(folder / files.DELETED)
    assert library.list() == []
    library.clean_up()
    library.restore(id)
    assert library.list()[0].id == id


@pytest.mark.parametrize(
    "id", ["", "..", "../x", "a/b", ".hidden", "-x", "x" * 65, "a b", "a\x00", "ä", None, 5, "C:x"]
)
def test_an_id_that_cannot_be_one_is_not_found_and_touches_nothing(library, id):
    stored(library, 1)
    for method in (library.open, library.delete, library.restore, library.entry, library.update, library.folder):
        with pytest.raises(NotFound):
            method(id)
    with pytest.raises(NotFound):
        library.export(id, library.path / "x")


def test_ids_are_long_random_and_safe():
    made = {ids.new_id() for _ in range(500)}
    assert len(made) == 500 and all(ids.is_id(id) and len(id) == 24 for id in made)
    assert ids.RANDOM_BYTES * 8 >= 120


def test_the_list_is_rebuilt_from_the_files_alone(library):
    made = [stored(library, day) for day in (1, 2, 3)]
    library.update(made[1], title="kept")
    before = library.list()
    for path in library.path.rglob("*.json"):
        if path.parent.name != made[1]:
            path.unlink()
    again = Library(library.path).list()
    assert [e.id for e in again] == [e.id for e in before] and {e.title for e in again} == {e.title for e in before}
    assert [e.n_layers for e in again] == [1, 1, 1]


def test_a_damaged_index_or_sidecar_is_no_harm(library):
    id = stored(library, 1)
    (library.path / "index.json").write_text('{"version": 1, "entries": {"x": [1]}}')
    for text in (
        "",
        "[]",
        '{"title": 3, "tags": "x", "visibility": "everyone", "heads": []}',
        '{"summary": {"bytes": 1}}',
    ):
        (library.folder(id) / sidecar.FILE).write_text(text)
        entry = Library(library.path).list()[0]
        assert (entry.id, entry.n_tokens, entry.tags, entry.visibility) == (id, 20, (), "link")
    assert entry.title == "The quick brown fox"


def test_changes_made_elsewhere_are_seen_at_the_next_list(library):
    mine, theirs = library, Library(library.path)
    id = stored(mine, 1)
    assert [e.id for e in theirs.list()] == [id]
    for n in range(20):
        theirs.update(id, title=f"title {n}")
        assert mine.list()[0].title == f"title {n}"
    theirs.delete(id)
    assert mine.list() == []


def test_a_clock_that_goes_backwards_loses_nothing(library, monkeypatch):
    first = stored(library, 1)
    library.list()
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000_000)
    second = stored(library, 2)
    os.utime(library.folder(second), (500, 500))
    assert {e.id for e in library.list()} == {first, second}
    library.update(second, title="after")
    assert {e.title for e in library.list()} == {"The quick brown fox", "after"}
    assert library.clean_up() == 0 and len(library.list()) == 2


def test_the_index_is_used_by_the_next_process(library, monkeypatch):
    monkeypatch.setattr("backend.store.entries.WORTH_WRITING", 1)
    id = stored(library, 1)
    os.utime(library.folder(id), (1_000, 1_000))
    library.list()
    content = json.loads((library.path / "index.json").read_text())
    values = content["entries"][id][1]
    values[values.index("The quick brown fox")] = "from the index"
    (library.path / "index.json").write_text(json.dumps(content))
    assert Library(library.path).list()[0].title == "from the index"


def test_a_private_analysis_is_found_again_only_by_its_owner(library):
    key = "k" * 64
    private = store(library, [layer_record()], run_record(cache_key=key), visibility="private", owner="me")
    assert library.find(key) is None and library.find(key, owner="you") is None
    assert library.find(key, owner="me") == private
    shared = store(library, [layer_record()], run_record(cache_key=key))
    assert library.find(key) == shared and library.find("other") is None
    assert library.find(key, owner="me", visibility="private") == private
    assert library.find(key, owner="me", visibility="link") == shared and library.find(key, visibility="listed") is None
    library.delete(shared)
    assert library.find(key) is None


def test_saving_copies_a_temporary_analysis_under_its_own_id(library):
    temporary = TemporaryLibrary()
    analysis = temporary.open(store(temporary, [layer_record()], title="mine", tags=("a",)))
    assert library.save(analysis) == analysis.id
    assert library.save(library.open(analysis.id)) == analysis.id
    again = library.save(analysis)
    assert again != analysis.id and len(library.list()) == 2
    assert {(e.title, e.tags) for e in library.list()} == {("mine", ("a",))}
    assert library.open(again).info["id"] == again


def test_case_74_a_prompt_of_any_length_and_script_comes_back_byte_for_byte(library):
    text = "100% a+b #1 & ñ 世界\n" * 250
    id = stored(library, 1, prompt={"text": text})
    assert len(id) == 24 and library.open(id).info["prompt"]["text"] == text
    assert len(library.entry(id).title) <= sidecar.TITLE_LENGTH


def test_case_77_a_hostile_title_is_only_text(library):
    id = store(
        library, [layer_record()], run_record(prompt={"text": HOSTILE}, model='"><svg onload=alert(1)>'), title=HOSTILE
    )
    entry = library.list()[0]
    assert entry.title == HOSTILE and entry.model == '"><svg onload=alert(1)>'
    assert library.open(id).info["prompt"]["text"] == HOSTILE


def test_the_bundled_library_is_never_written(library):
    id = stored(library, 1)
    before = {path: path.stat().st_mtime_ns for path in library.path.rglob("*")}
    bundled = Library(library.path, read_only=True)
    assert [e.id for e in bundled.list()] == [id] and bundled.open(id).map(0, 0).shape == (20, 20)
    for change in (lambda: bundled.update(id, title="x"), lambda: bundled.delete(id), lambda: AnalysisWriter(bundled)):
        with pytest.raises(StoreError, match="can be changed"):
            change()
    assert {path: path.stat().st_mtime_ns for path in library.path.rglob("*")} == before


def test_a_study_is_stored_and_opened_like_an_analysis(library):
    member = stored(library, 1)
    scores = pa.table({"layer": [0, 0], "head": [0, 1], "induction": [0.5, None]})
    id = save_study(library, "random_repeat", {"length": 50}, [member], {"scores": scores}, title="Probe")
    study = library.open(id)
    assert isinstance(study, Study) and study.tables() == ["info", "scores"]
    assert study.info["study"] == "random_repeat" and study.info["members"] == [member]
    assert study.info["parameters"] == {"length": 50}
    assert study.table("scores").to_pylist() == scores.to_pylist()
    assert study.sql("SELECT max(induction) AS m FROM scores").to_pylist() == [{"m": 0.5}]
    assert [e.id for e in library.list(type="study")] == [id] and library.entry(id).title == "Probe"
    imported = library.import_file(study.path)
    assert library.open(imported).table("scores").num_rows == 2
    for name in ("info", "maps_0", "Scores", "a b", "x; drop"):
        with pytest.raises(HeadwaterError, match="Tables and columns of a study"):
            save_study(library, "s", {}, [], {name: scores})
    with pytest.raises(HeadwaterError, match="Tables and columns of a study"):
        save_study(library, "s", {}, [], {"scores": scores.rename_columns(["layer", "head", "<b>"])})


def test_an_export_is_the_file(library, tmp_path):
    id = stored(library, 1)
    path = library.export(id, tmp_path / "copy.duckdb")
    assert path.read_bytes() == (library.folder(id) / files.FILE).read_bytes()
    assert library.export(id, tmp_path) == tmp_path / f"{id}.duckdb"
    with pytest.raises(HeadwaterError, match="exists already"):
        library.export(id, path)
    with duckdb.connect(str(path), read_only=True) as plain:
        assert plain.execute("SELECT count(*) FROM tokens").fetchone() == (20,)

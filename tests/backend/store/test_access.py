"""Whatever happens to the small files beside an analysis, what was private stays private."""

import json
from itertools import product

import pyarrow as pa
import pytest
from store_records import layer_record, store

from backend.errors import NotFound
from backend.shelf import Shelf, may_change
from backend.store import Library, access, save_study, sidecar

LOST = (None, "", "{half", "[]", '"private"', "{}", '{"visibility": "everyone"}', '{"visibility": 1}', "[" * 100_000)
MORE = ('{"visibility": "link", "owner": 3}', '{"summary": {"bytes": 1}}', "\x00")


def lose(folder, name: str, text: str | None) -> None:
    if text is None:
        (folder / name).unlink(missing_ok=True)
    else:
        (folder / name).write_text(text)


@pytest.mark.parametrize("text", [*LOST, *MORE], ids=repr)
def test_without_its_sidecar_a_private_analysis_is_still_its_owners(library, text):
    id = store(library, [layer_record()], visibility="private", owner="me")
    lose(library.folder(id), sidecar.FILE, text)
    entry = Library(library.path).entry(id)
    assert (entry.visibility, entry.owner, entry.n_tokens) == ("private", "me", 20)
    assert entry.title == "The quick brown fox"


@pytest.mark.parametrize(("first", "second"), [*product(LOST[:4], LOST[:4])], ids=repr)
def test_without_both_files_it_is_nobodys_and_private(library, first, second):
    id = store(library, [layer_record()], visibility="private", owner="me")
    lose(library.folder(id), sidecar.FILE, first)
    lose(library.folder(id), access.FILE, second)
    entry = Library(library.path).entry(id)
    assert (entry.visibility, entry.owner) == ("private", None)
    assert not may_change(entry, None) and not may_change(entry, "me")
    assert Shelf(library.path, library.path / "none").entries("me") == []


def test_what_became_private_later_stays_so(library):
    id = store(library, [layer_record()], owner="me")
    library.update(id, visibility="private")
    (library.folder(id) / sidecar.FILE).write_text("{")
    assert Library(library.path).entry(id).visibility == "private"
    (library.folder(id) / access.FILE).write_text("{")
    assert Library(library.path).entry(id).visibility == "private"


def test_an_entry_that_lost_one_file_of_two_and_the_other_was_never_there(library):
    """An analysis of before there was a second file: its sidecar is damaged, so nobody knows whose it is."""
    id = store(library, [layer_record()])
    (library.folder(id) / access.FILE).unlink()
    (library.folder(id) / sidecar.FILE).write_text("{")
    assert Library(library.path).entry(id).visibility == "private"


def test_a_file_alone_is_listed_as_it_was_saved(library, caplog):
    shared = store(library, [layer_record()], visibility="listed")
    mine = store(library, [layer_record()], visibility="private", owner="me")
    study = save_study(library, "s", {}, [], {"x": pa.table({"a": [1]})}, visibility="private", owner="me")
    for id in (shared, mine, study):
        for path in library.folder(id).glob("*.json"):
            path.unlink()
    found = {entry.id: entry.visibility for entry in Library(library.path).list()}
    assert found == {shared: "listed", mine: "private", study: "private"}


def test_a_foreign_file_says_nothing_about_who_may_see_it(library, tmp_path):
    theirs = store(Library(tmp_path / "theirs"), [layer_record()])
    id = library.import_file(Library(tmp_path / "theirs").open(theirs).path, owner="me", visibility="private")
    for path in library.folder(id).glob("*.json"):
        path.unlink()
    entry = Library(library.path).entry(id)
    assert (entry.visibility, entry.imported) == ("private", True)
    assert library.open(id).info["visibility"] == "link"  # what the file claims


def test_how_to_repair_it_is_said_and_works(library, caplog):
    id = store(library, [layer_record()], owner="me", title="mine")
    for name in (sidecar.FILE, access.FILE):
        (library.folder(id) / name).write_text("{half")
    again = Library(library.path)
    assert again.entry(id).visibility == "private"
    assert f"Library(<data folder>).update({id!r}, visibility='link')" in caplog.text
    again.update(id, visibility="link")
    assert Library(library.path).entry(id).visibility == "link"
    assert (library.folder(id) / sidecar.UNREADABLE).read_text() == "{half"


def test_the_owner_is_not_in_the_file_that_is_handed_on(library, tmp_path):
    id = store(library, [layer_record()], visibility="private", owner="secret-name-of-a-browser")
    library.update(id, title="x")
    assert b"secret-name" not in library.export(id, tmp_path / "copy").read_bytes()
    assert json.loads((library.folder(id) / access.FILE).read_text())["owner"] == "secret-name-of-a-browser"


def test_an_id_that_is_not_there_is_nobodys_trouble(library, caplog):
    with pytest.raises(NotFound):
        library.entry("A" * 24)
    assert not caplog.records

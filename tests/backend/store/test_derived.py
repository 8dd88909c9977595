"""What was made of an analysis follows it into privacy: in lists, by its link, and in what a cache gives."""

import json

import pyarrow as pa
import pytest
from store_records import layer_record, run_record, store

from backend.errors import HeadwaterError, NotFound
from backend.shelf import Shelf
from backend.store import Library, access, save_study, sidecar

SCORES = {"scores": pa.table({"layer": [0]})}
KEY = "k" * 64


@pytest.fixture
def made(library):
    """An analysis of "me", a study that "you" made of it, and an analysis that the study kept."""
    source = store(library, [layer_record()], owner="me")
    study = save_study(library, "s", {}, [], SCORES, info={"cache_key": KEY}, owner="you", made_of=(source,))
    kept = store(library, [layer_record()], run_record(cache_key="c"), owner="you", made_of=(study, source))
    return library, source, study, kept


def seen_by(library, owner):
    """What of the three the link of each shows to somebody."""
    found = []
    for entry in library.list():
        try:
            Shelf(library.path, library.path / "none").open(entry.id, owner)
        except NotFound:
            continue
        found.append(entry.id)
    return set(found)


def test_a_study_of_an_analysis_made_private_is_seen_by_its_maker_alone(made):
    library, source, study, kept = made
    assert seen_by(library, "stranger") == seen_by(library, None) == {source, study, kept}
    library.update(source, visibility="private")
    for fresh in (library, Library(library.path)):
        assert seen_by(fresh, "stranger") == seen_by(fresh, None) == set()
        assert seen_by(fresh, "me") == {source} and seen_by(fresh, "you") == {study, kept}
        assert {entry.visibility for entry in fresh.list()} == {"private"} == {fresh.entry(study).visibility}
        assert fresh.find(KEY) is None and fresh.find(KEY, owner="me") is None and fresh.find(KEY, owner="you") == study
    library.update(source, visibility="listed")  # shared again
    assert seen_by(library, "stranger") == {source, study, kept}
    assert library.entry(study).visibility == "link"


def test_a_study_made_private_takes_what_it_kept_along(made):
    library, source, study, kept = made
    library.update(study, visibility="private")
    assert seen_by(library, "stranger") == {source} and seen_by(library, "you") == {source, study, kept}


def test_it_cannot_be_opened_before_what_it_was_made_of(made):
    library, source, study, kept = made
    library.update(source, visibility="private")
    for id in (study, kept):
        with pytest.raises(HeadwaterError, match="made of a private analysis"):
            library.update(id, visibility="listed")
        library.update(id, title="another", visibility="private")
    library.update(source, visibility="link")
    assert library.update(kept, visibility="private").visibility == "private"
    assert seen_by(library, "stranger") == {source}, "both were made private on their own account meanwhile"


def test_a_private_one_that_is_deleted_or_evicted_opens_nothing(made):
    library, source, study, kept = made
    library.update(source, visibility="private")
    library.delete(source)
    assert seen_by(library, "stranger") == set() and seen_by(library, "you") == {study, kept}
    library.restore(source)
    other = Library(library.path)
    assert other.evict(source)
    assert seen_by(other, "stranger") == set()


def test_one_that_was_shared_until_it_was_deleted_hides_nothing(made):
    library, source, study, kept = made
    library.delete(source)
    assert seen_by(library, "stranger") == {study, kept}


@pytest.mark.parametrize("lost", [(sidecar.FILE,), (access.FILE,), (sidecar.FILE, access.FILE)])
def test_lost_or_damaged_small_files_open_nothing(made, lost):
    library, source, study, _ = made
    library.update(source, visibility="private")
    for name in lost:
        (library.folder(study) / name).write_text("{half")
    assert study not in seen_by(Library(library.path), "stranger")


@pytest.mark.parametrize("wrong", ["x", [3], {"a": 1}, None])
def test_an_entry_that_says_nonsense_about_it_is_told_by_its_second_file(made, wrong):
    library, source, study, _ = made
    library.update(source, visibility="private")
    path = library.folder(study) / sidecar.FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "made_of": wrong}))
    assert study not in seen_by(Library(library.path), "stranger")


def test_ids_that_are_none_and_circles_do_no_harm(library):
    first = store(library, [layer_record()], owner="me", made_of=("../../etc", "x" * 24))
    assert library.entry(first).visibility == "link" == library.list()[0].visibility
    path = library.folder(first) / sidecar.FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "made_of": [first]}))
    assert library.update(first, visibility="private").visibility == "private"
    assert Library(library.path).entry(first).made_of == (first,)

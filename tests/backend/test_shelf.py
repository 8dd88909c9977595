"""The shelf: who may see, change and label what."""

from __future__ import annotations

import json

import pytest

from backend.errors import HeadwaterError, NotFound, Refused, StoreError
from backend.shelf import Shelf
from backend.store import HeadMark, sidecar
from backend.store.head_marks import marks, name_of, place_of
from tests.stored import store


@pytest.fixture
def shelf(tmp_path):
    store(tmp_path / "bundled", id="shipped")
    return Shelf(tmp_path / "own", tmp_path / "bundled")


def test_labels_of_heads_are_kept_changed_and_taken_away(shelf, tmp_path):
    id = store(tmp_path / "own", owner="me", layers=(3, 7))
    assert shelf.head_marks(id, "me") == {}
    assert shelf.mark_head(id, "self", 7, 2, owner="me", label="sink **<b>**", pinned=True).pinned
    shelf.mark_head(id, "self", 3, 0, owner="me", note="odd")
    shelf.mark_head(id, "self", 7, 2, owner="me", note="looks at token 0")
    assert shelf.head_marks(id, "you") == {
        ("self", 7, 2): HeadMark("sink **<b>**", "looks at token 0", True),
        ("self", 3, 0): HeadMark(note="odd"),
    }
    shelf.mark_head(id, "self", 7, 2, owner="me", label="", note="", pinned=False)
    assert Shelf(tmp_path / "own", tmp_path / "bundled").head_marks(id) == {("self", 3, 0): HeadMark(note="odd")}


def test_only_who_may_change_an_entry_labels_its_heads(shelf, tmp_path):
    theirs = store(tmp_path / "own", owner="you")
    hidden = store(tmp_path / "own", owner="you", visibility="private")
    nobodys = store(tmp_path / "own")
    with pytest.raises(Refused, match="Only who ran this analysis"):
        shelf.mark_head(theirs, "self", 0, 0, owner="me", label="x")
    for call in (shelf.head_marks, lambda id, owner: shelf.mark_head(id, "self", 0, 0, owner=owner, label="x")):
        with pytest.raises(NotFound):
            call(hidden, "me")
    assert shelf.mark_head(nobodys, "self", 0, 0, owner="me", label="x") == HeadMark("x")
    with pytest.raises(StoreError, match="ship with Headwater"):
        shelf.mark_head("shipped", "self", 0, 0, owner="me", label="x")


@pytest.mark.parametrize("place", [("self", 2, 0), ("self", 0, 4), ("self", 0, -1), ("cross", 0, 0)])
def test_a_head_that_does_not_exist_gets_no_label(shelf, tmp_path, place):
    with pytest.raises(NotFound, match="no head"):
        shelf.mark_head(store(tmp_path / "own"), *place, label="x")


def test_a_label_has_a_length_and_is_a_text(shelf, tmp_path):
    id = store(tmp_path / "own")
    for wrong in ({"label": "x" * 30_000}, {"label": 3}, {"pinned": "yes"}):
        with pytest.raises(HeadwaterError, match="expected"):
            shelf.mark_head(id, "self", 0, 0, **wrong)
    assert shelf.head_marks(id) == {}


def test_names_of_heads_and_sidecars_that_hold_anything(shelf, tmp_path):
    for place in (("self", 12, 3), ("cross", 0, 11), ("encoder", 5, 0)):
        assert place_of(name_of(*place)) == place
    assert name_of("self", 12, 3) == "12.3" and name_of("cross", 0, 11) == "cross:0.11"
    odd = {"1.2": {"label": "kept"}, "x": {"label": "y"}, "1.3": {"label": 5}, "1.4": {"colour": "red"}, "1.5": []}
    assert marks(odd) == {("self", 1, 2): HeadMark("kept")}
    id = store(tmp_path / "own")
    path = tmp_path / "own" / "analyses" / id / sidecar.FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"heads": odd}))
    assert shelf.head_marks(id) == {("self", 1, 2): HeadMark("kept")}


def test_lists_hold_what_is_ones_own_listed_or_nobodys(shelf, tmp_path):
    def made(owner, visibility):
        return store(tmp_path / "own", owner=owner, visibility=visibility)

    mine = {visibility: made("me", visibility) for visibility in ("private", "link", "listed")}
    theirs = {visibility: made("you", visibility) for visibility in ("private", "link", "listed")}
    nobodys = made(None, "link")
    everybody = {mine["listed"], theirs["listed"], nobodys, "shipped"}
    assert {entry.id for entry in shelf.entries("me")} == {*mine.values(), *everybody}
    assert {entry.id for entry in shelf.entries(None)} == everybody
    assert shelf.open(theirs["link"], "me").analysis.id == theirs["link"]
    with pytest.raises(NotFound):
        shelf.open(theirs["private"], "me")
    with pytest.raises(NotFound):
        shelf.open(mine["private"], None)


def test_a_person_imports_so_much_and_no_more(shelf, tmp_path, monkeypatch):
    store(tmp_path / "elsewhere", n_tokens=20)
    path = next((tmp_path / "elsewhere").rglob("*.duckdb"))
    id = shelf.take_in(path, "me", "private")
    assert shelf.entry(id, "me").imported and shelf.entry(id, "me").visibility == "private"
    monkeypatch.setenv("HEADWATER_UPLOAD_MB", "1")
    with pytest.raises(Refused, match="at most 1 MB are taken"):
        for _ in range(4):
            shelf.take_in(path, "me")
    assert shelf.take_in(path, "you")

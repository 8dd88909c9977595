"""The frame: a link opens its view, a wrong one the nearest with one notice, and clicks never snap back."""

import json
import os
import time

import pytest

from pages.shared.address import STATE
from pages.shared.menu import menu
from tests.stored import HOSTILE, store


def header_of(app) -> dict:
    """What the header component was told."""
    for element in app.get("bidi_component"):
        if element.proto.component_name == "headwater_header":
            return json.loads(element.proto.json)
    raise AssertionError("the page has no header")


def notice(app) -> str:
    """The text of the one notice, '' where there is none."""
    found = [
        text.value for text in app.text if any(word in text.value for word in ("is shown", "left out", "no analysis"))
    ]
    assert len(found) <= 1
    return found[0] if found else ""


def choose(app, name, value):
    """Sets a selector on the left and lets the page run."""
    key = f"headwater_choose_{name}"
    next(w for w in (*app.number_input, *app.selectbox) if w.key == key).set_value(value)
    return app.run()


def test_without_any_analysis_the_page_says_what_to_do(open_page, data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("backend.shelf.bundled_folder", lambda: tmp_path)
    app = open_page("heads")
    assert not app.exception
    assert any("There is no analysis yet" in text.value for text in app.text)


def test_no_analysis_chosen_shows_a_bundled_one_and_says_so(open_page, library):
    app = open_page("heads")
    assert not app.exception
    assert notice(app) == "A bundled analysis is shown; choose another in the list on the left."
    assert header_of(app)["title"] == "A first bundled one"
    assert "analysis=bundled-first" in header_of(app)["query"]
    assert app.query_params == {}


def test_a_link_opens_its_view(open_page, library):
    query = {"analysis": library.plain, "layer": "1", "head": "3", "rows": "4:30", "measure": "entropy", "query": "12"}
    app = open_page("heads", **query)
    assert not app.exception
    assert notice(app) == ""
    state = app.session_state[STATE]
    assert (state.layer, state.head, state.rows, state.measure, state.query) == (1, 3, (4, 30), "entropy", 12)
    assert app.query_params == query
    assert header_of(app)["title"] == HOSTILE


@pytest.mark.parametrize(
    ("query", "words", "layer", "head"),
    [
        ({"layer": "-1"}, "There is no layer -1 (0 to 1 exist); layer 0 is shown.", 0, 0),
        ({"layer": "99", "head": "2"}, "There is no layer 99 (0 to 1 exist); layer 1 is shown.", 1, 2),
        ({"layer": "two"}, "layer='two', but a whole number was expected", 0, 0),
        ({"head": "4"}, "There is no head 4 (0 to 3 exist); head 3 is shown.", 0, 3),
        ({"kind": "cross"}, "no kind 'cross'", 0, 0),
        ({"layer": "9", "head": "9", "rows": "1:999", "measure": "charm"}, "There is no layer 9", 1, 3),
        ({"layer": "<img src=x onerror=alert(1)>"}, "<img src=x onerror=alert(1)>", 0, 0),
    ],
)
def test_an_edited_link_falls_to_the_nearest_view_with_one_notice(open_page, library, texts, query, words, layer, head):
    app = open_page("heads", analysis=library.plain, **query)
    assert not app.exception
    assert words in notice(app)
    state = app.session_state[STATE]
    assert (state.layer or 0, state.head or 0) == (layer, head)
    assert not any("onerror" in text for text in texts(app).marked)
    again = open_page("heads", **app.query_params)
    assert notice(again) == ""


@pytest.mark.parametrize("id", ["x" * 24, "..%2f..%2fetc%2fpasswd", "', drop"])
def test_an_unknown_id_shows_a_bundled_one(open_page, library, id):
    app = open_page("heads", analysis=id)
    assert not app.exception
    assert "A bundled analysis is shown" in notice(app)
    assert header_of(app)["title"] == "A first bundled one"


def test_what_a_page_adds_falls_to_the_nearest_with_the_same_notice(open_page, library):
    app = open_page("heads", analysis=library.plain, pins="0.1,9.9", minus="nowhere", study="unknown")
    assert not app.exception
    assert all(word in notice(app) for word in ("'9.9'", "'nowhere'", "'unknown'"))
    assert app.query_params["pins"] == "0.1" and {"minus", "study"}.isdisjoint(app.query_params)


def test_a_private_analysis_does_not_exist_for_others(open_page, library):
    app = open_page("heads", analysis=library.private)
    assert header_of(app)["title"] == "A first bundled one"
    assert f"There is no analysis '{library.private}' here" in notice(app)
    listed = next(box for box in app.selectbox if box.key == "headwater_choose_analysis")
    assert "secret" not in listed.options


def test_layers_that_do_not_follow_each_other_are_offered_as_a_list(open_page, library):
    app = open_page("heads", analysis=library.hybrid, layer="6")
    box = next(box for box in app.selectbox if box.key == "headwater_choose_layer")
    assert (box.options, box.value) == (["3", "7"], 7)


def test_every_choice_is_in_the_address_at_once(open_page, library):
    app = open_page("heads", analysis=library.plain)
    choose(app, "layer", 1)
    assert app.query_params == {"analysis": library.plain, "layer": "1"}
    choose(app, "head", 2)
    choose(app, "measure", "entropy")
    assert app.query_params == {"analysis": library.plain, "layer": "1", "head": "2", "measure": "entropy"}
    assert header_of(app)["query"] == f"analysis={library.plain}&layer=1&head=2&measure=entropy"


def test_case_72_quick_changes_never_snap_back(open_page, library):
    app = open_page("heads", analysis=library.plain)
    old = dict(app.query_params)
    for head in (1, 2, 3, 1, 2):
        app.query_params = dict(old)  # the click was sent before the browser had the new address
        choose(app, "head", head)
        assert app.session_state[STATE].head == head
        assert app.query_params["head"] == str(head)
    app.query_params = dict(old)
    app.run()  # a late rerun without a choice
    assert app.session_state[STATE].head == 2


def test_a_bundled_one_that_stood_in_is_named_once_something_is_chosen(open_page, library):
    app = open_page("heads")
    choose(app, "head", 2)
    assert app.query_params == {"analysis": "bundled-first", "head": "2"}
    choose(app, "head", 3)
    assert notice(app) == ""


def test_another_analysis_keeps_layer_and_head_but_not_the_window(open_page, library):
    app = open_page("heads", analysis=library.plain, layer="1", head="2", rows="0:8", query="5")
    choose(app, "analysis", "bundled-second")
    assert app.query_params == {"analysis": "bundled-second", "layer": "1", "head": "2"}


def test_case_73_the_menu_keeps_the_view_and_leaves_what_is_the_pages_own(open_page, library):
    app = open_page("heads", analysis=library.plain, layer="1", head="2", rows="0:8", grid="values")
    links = {link.proto.label: link.proto.query_string for link in app.get("page_link")}
    assert links["Headwater"] == f"analysis={library.plain}&layer=1&head=2&rows=0%3A8"
    home = open_page(None, analysis=library.plain, layer="1", head="2", rows="0:8")
    links = {link.proto.label: link.proto.query_string for link in home.get("page_link")}
    assert links["Heads"] == f"analysis={library.plain}&layer=1&head=2&rows=0%3A8"


def test_the_menu_is_the_folder(tmp_path, monkeypatch):
    for name in ("zebra", "sql", "heads", "_draft"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.setattr("pages.shared.menu.PAGES", tmp_path)
    assert menu() == [("heads", "Heads"), ("sql", "SQL"), ("zebra", "Zebra")]


def test_no_text_of_a_person_is_written_as_markup(open_page, library, texts):
    app = open_page("heads", analysis=library.plain)
    assert not any(HOSTILE[:12] in text for text in texts(app).marked)


def test_what_a_killed_process_left_half_written_is_removed(open_page, library, monkeypatch):
    monkeypatch.setattr("pages.shared.opened.TIDY_AFTER", 0)
    left = library.folder / "analyses" / "left-by-a-killed-run"
    left.mkdir()
    (left / "analysis.writing").write_text("half")
    os.utime(left, (1, 1))
    open_page("glossary")
    open_page("heads")
    end = time.monotonic() + 20
    while left.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not left.exists()


def test_an_analysis_reached_by_its_link_alone_is_listed_under_its_title(open_page, library):
    unlisted = store(library.folder, title="whoever has the link", visibility="link", owner="b" * 32)
    app = open_page("heads", analysis=unlisted)
    choice = app.selectbox(key="headwater_choose_analysis")
    assert choice.value == unlisted and "whoever has the link" in choice.options

"""What the page tells the map viewer, and how it reads what comes back."""

import re

import pytest

from pages.shared import head_grid, map_viewer
from pages.shared.map_viewer import Look, MapView, read_look


def view(**changes) -> MapView:
    return MapView(
        **{"analysis": "abc", "kind": "self", "layer": 3, "head": 1, "shape": (9, 9), "exact": True, **changes}
    )


def test_message_names_the_routes():
    message = view().message()
    assert message["map"] == "data/abc/map/self/3/1"
    assert message["tokens"] == "data/abc/tokens.json"
    assert message["window"] is None
    assert message["cell"] is None


def test_a_window_of_rows_only_spans_all_columns():
    assert view(rows=(2, 5)).message()["window"] == {"rows": [2, 5], "columns": [0, 9]}


def test_a_marked_row_without_key():
    assert view(query=4).message()["cell"] == {"query": 4, "key": None}


@pytest.mark.parametrize(
    "value", [{}, {"scale": "x", "how": 3, "hide": "yes", "direction": None}, {"scale": ["log"], "hide": 1}]
)
def test_an_unknown_look_is_the_plain_one(value):
    assert read_look(value) == Look()


def test_a_known_look_is_taken():
    assert read_look({"scale": "log", "how": "max", "hide": True, "direction": "to"}) == Look(
        "log", "max", True, False, "to"
    )


@pytest.mark.parametrize("span", [None, [0, 9], [3, 3], [5, 2], [-1, 4], [0, 10], [0.5, 3], ["0", "3"], [1], {"a": 1}])
def test_a_window_that_is_none_is_not_taken(span):
    assert map_viewer._span(span, 9) is None


def test_a_window_is_taken():
    assert map_viewer._span([2, 5], 9) == (2, 5)


@pytest.mark.parametrize("value", [None, -1, 9, 1.5, "3", [1], True])
def test_a_cell_outside_the_map_is_not_taken(value):
    assert map_viewer._index(value, 9) is None


@pytest.mark.parametrize("room", [map_viewer, head_grid])
def test_scripts_need_nothing_from_elsewhere_and_never_read_text_as_html(room):
    script = room.script().replace("http://www.w3.org/2000/svg", "")  # the name of a format, not an address
    assert "innerHTML" not in script and "insertAdjacentHTML" not in script and "eval(" not in script
    assert not re.search(r"https?://", script), "no script or picture may come from another host"
    assert script.count("export default") == 1


def test_undefined_values_reach_the_grid_as_null():
    grid = head_grid.GridView("abc", "self", {0: [0.5, float("nan")], 2: [float("inf")]}, "induction", "weight", 0, 0)
    assert [row["values"] for row in grid.message()["layers"]] == [[0.5, None], [None]]


def test_maps_beside_and_against_are_told_with_their_routes():
    message = view(
        others=(map_viewer.OtherMap("abc", "self", 5, 2, exact=True, sinks=(0,)),),
        minus=map_viewer.OtherMap("xyz", "self", 3, 1, exact=False, title="other"),
    ).message()
    assert message["others"][0]["map"] == "data/abc/map/self/5/2" and message["others"][0]["sinks"] == [0]
    assert message["minus"]["name"] == "3.1 of other" and message["minus"]["head"] == "3.1"
    assert message["exact"] is False, "a difference is exact only where both maps are"


@pytest.mark.parametrize(("told", "read"), [("0.01", 0.01), (1, 1.0), ("x", 0), (-1, 0), (2, 0), ("nan", 0), (None, 0)])
def test_a_threshold_is_a_weight_or_none(told, read):
    assert read_look({"threshold": told}).threshold == read


@pytest.mark.parametrize("told", [(None, None, None), ("x", 3, "y"), (["maps"], "size", float("inf")), ("", "", "nan")])
def test_an_unknown_arrangement_is_the_plain_one(told):
    assert head_grid.read_arranged(*told) == head_grid.Arranged()


def test_a_known_arrangement_is_taken():
    assert head_grid.read_arranged("values", "value", "0.25") == head_grid.Arranged("values", "value", 0.25)

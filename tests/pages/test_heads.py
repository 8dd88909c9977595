"""The page of heads from a link: what it tells grid and map, its sentences, tables and definition."""

import json

import duckdb
import pytest

from backend import statistics
from backend.store import Library
from pages.shared.panels.head_sentences import three_digits
from tests.stored import HOSTILE, store


def told(app, component: str) -> dict:
    """What a component of the page was told."""
    for element in app.get("bidi_component"):
        if element.proto.component_name == component:
            return json.loads(element.proto.json or element.proto.mixed.json)
    raise AssertionError(f"the page has no {component}")


def plain(app) -> str:
    return "\n".join(element.value for element in app.text)


def test_a_link_shows_its_head_window_and_look(open_page, library):
    link = {
        "layer": "1",
        "head": "2",
        "rows": "3:9",
        "columns": "0:7",
        "query": "5",
        "key": "2",
        "scale": "log",
        "hide": "1",
    }
    app = open_page("heads", analysis=library.plain, **link)
    assert not app.exception
    shown = told(app, "headwater_map_viewer")
    assert shown["map"] == f"data/{library.plain}/map/self/1/2"
    assert shown["window"] == {"rows": [3, 9], "columns": [0, 7]}
    assert shown["cell"] == {"query": 5, "key": 2}
    assert shown["look"] == {
        "scale": "log",
        "how": "mean",
        "hide": True,
        "fold": False,
        "direction": "from",
        "threshold": 0.0,
    }
    assert shown["shape"] == [40, 40] and shown["exact"] is True and shown["note"] == ""
    assert told(app, "headwater_head_grid")["selected"] == {"layer": 1, "head": 2}
    assert "Where query 5 “" in plain(app)


def test_the_grid_shows_the_chosen_measure_of_every_head(open_page, library):
    app = open_page("heads", analysis=library.plain, measure="entropy", grid="values")
    grid = told(app, "headwater_head_grid")
    expected = Library(library.folder).open(library.plain).statistic("entropy")
    assert [row["values"] for row in grid["layers"]] == expected.tolist()
    assert grid["mode"] == "values" and grid["measure"] == "entropy" and grid["unit"] == "nats"
    assert "Heads by entropy; this head is" in plain(app)


def test_a_statistic_that_came_later_is_not_in_an_older_file(open_page, library, monkeypatch):
    monkeypatch.setitem(statistics._shelf(), "newest", statistics.all()["entropy"])
    app = open_page("heads", analysis=library.plain, measure="newest")
    assert not app.exception
    assert "There is no statistic 'newest' in this analysis; it has" in plain(app)
    assert told(app, "headwater_map_viewer")["exact"] is True


def test_layers_keep_the_models_own_numbers(open_page, library):
    app = open_page("heads", analysis=library.hybrid, layer="7")
    assert [row["layer"] for row in told(app, "headwater_head_grid")["layers"]] == [3, 7]
    assert told(app, "headwater_map_viewer")["name"] == "7.0"


def test_an_unknown_look_in_the_link_is_the_plain_one(open_page, library):
    wrong = {"scale": "<b>", "how": "median", "grid": "x", "direction": "up", "hide": "2"}
    app = open_page("heads", analysis=library.plain, **wrong)
    assert not app.exception
    look = {"scale": "root", "how": "mean", "hide": False, "fold": False, "direction": "from", "threshold": 0.0}
    assert told(app, "headwater_map_viewer")["look"] == look
    assert told(app, "headwater_head_grid")["mode"] == "maps"


def test_a_head_without_exact_map_shows_the_pooled_one_and_says_so(open_page, library):
    id = store(library.folder, n_tokens=40, exact=(1,), title="some heads")
    app = open_page("heads", analysis=id, head="0")
    assert not app.exception
    shown = told(app, "headwater_map_viewer")
    assert shown["exact"] is False and "Only the pooled map" in shown["note"]
    assert "cannot be drawn" in plain(app)
    assert told(open_page("heads", analysis=id, head="1"), "headwater_map_viewer")["exact"] is True


def test_a_damaged_map_costs_its_own_panel_only(open_page, library):
    id = store(library.folder, n_tokens=40, title="damaged")
    with duckdb.connect(str(library.folder / "analyses" / id / "analysis.duckdb")) as file:
        (name,) = file.execute("select maps from layers where layer = 0").fetchone()
        file.execute(f"update {name} set data = 'x'::blob where part = 'query' and head = 2")
    app = open_page("heads", analysis=id, layer="0", head="2")
    assert not app.exception
    assert "queries of head 0.2" in plain(app)
    assert told(app, "headwater_map_viewer")["name"] == "0.2"
    assert "Heads by first mass" in plain(app)


def test_a_file_without_readable_tokens_is_said_and_another_is_shown(open_page, library):
    id = store(library.folder, n_tokens=40, title="damaged")
    with duckdb.connect(str(library.folder / "analyses" / id / "analysis.duckdb")) as file:
        file.execute("drop table tokens")
    app = open_page("heads", analysis=id)
    assert not app.exception
    assert "no table 'tokens'" in plain(app) and "A bundled analysis is shown" in plain(app)


@pytest.mark.parametrize("table", ["heads", "keys"])
def test_a_file_without_one_table_still_shows_the_rest(open_page, library, table):
    id = store(library.folder, n_tokens=40, title="incomplete")
    with duckdb.connect(str(library.folder / "analyses" / id / "analysis.duckdb")) as file:
        file.execute(f"drop table {table}")
    app = open_page("heads", analysis=id)
    assert not app.exception
    assert f"'{table}'" in plain(app) and "analysis is shown" not in plain(app)


def test_infinite_values_of_a_file_from_elsewhere_count_as_none(open_page, library):
    id = store(library.folder, n_tokens=40, title="infinite")
    with duckdb.connect(str(library.folder / "analyses" / id / "analysis.duckdb")) as file:
        file.execute("update heads set first_mass = 'inf'::double")
    app = open_page("heads", analysis=id)
    assert not app.exception
    assert "No head has a value of first mass here." in plain(app)


def test_one_token(open_page, library):
    id = store(library.folder, n_tokens=1, text="a", title="one")
    app = open_page("heads", analysis=id)
    assert not app.exception
    assert told(app, "headwater_map_viewer")["shape"] == [1, 1]
    assert "has no first mass: no row of this prompt qualifies" in plain(app)
    assert "No head has a value of first mass here." in plain(app)


def test_hostile_text_is_never_markdown_or_html(open_page, library, texts):
    app = open_page("heads", analysis=library.plain)
    app.session_state["headwater_tables"] = True
    app.run()
    assert not app.exception
    for marked in texts(app).marked:
        assert "onerror" not in marked and ":red[" not in marked and HOSTILE not in marked


def test_the_definition_is_one_click_away_with_its_baseline(open_page, library):
    app = open_page("heads", analysis=library.plain, measure="previous_token")
    assert any(expander.label == "Definition: previous token" for expander in app.expander)
    assert "Formula: mean over rows i whose previous token is visible of A[i, p_i - 1]" in plain(app)
    assert "Range: 0 to 1" in plain(app)


@pytest.mark.parametrize(
    "table, column", [("All heads", "entropy"), ("Rows of this head", "token"), ("Keys of this head", "token")]
)
def test_tables_hold_the_numbers_behind_the_pictures(open_page, library, table, column):
    app = open_page("heads", analysis=library.plain, layer="1", head="3")
    app.session_state["headwater_tables"] = True
    app.session_state["headwater_table"] = table
    app.run()
    assert not app.exception
    frame = app.dataframe[0].value
    assert column in frame.columns
    assert len(frame) == (8 if table == "All heads" else 40)


def test_sinks_of_the_head_are_told_to_the_map(open_page, library):
    analysis = Library(library.folder).open(library.plain)
    keys = analysis.keys(layer=0, head=1).to_pylist()
    expected = {row["key"] for row in keys if row["visible_rows"] >= 16 and row["received_mean"] > 0.1}
    app = open_page("heads", analysis=library.plain, layer="0", head="1")
    assert set(told(app, "headwater_map_viewer")["sinks"]) == expected


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0, "0"),
        (0.41234, "0.412"),
        (0.9996, "1.00"),
        (0.99951, "1.00"),
        (12.345, "12.3"),
        (1234.5, "1234"),
        (0.00012, "1.20e-04"),
    ],
)
def test_three_digits(value, text):
    assert three_digits(value) == text

"""The page SQL: its queries are in its address, its examples work, and what people type is text."""

import pyarrow as pa
import pytest

from backend.settings import bundled_folder
from backend.store import Library, save_study, typed_sql
from backend.store.typed_sql import Answer
from pages.shared.charts.query_chart import query_chart
from pages.shared.panels.sql_answer import choose, sentence
from pages.shared.panels.sql_examples import EXAMPLES, study_examples
from pages.shared.view_state import ViewState

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def story():
    return Library(bundled_folder(), read_only=True).open("bundled-story")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.label)
def test_every_example_answers_with_rows_of_the_bundled_analysis(story, example):
    state = ViewState(kind="self", layer=3, head=5, query=7)
    assert story.sql(example.filled(state)).num_rows > 0


def test_every_page_has_examples():
    assert {"Heads", "Sinks", "Basins", "Sparsity", "Lessons"} <= {example.page for example in EXAMPLES}
    assert study_examples(["info", "scores"])[0].text == 'SELECT *\nFROM "scores"\nLIMIT 200'


def test_a_link_runs_its_query_and_shows_it(open_page, library, texts):
    text = "SELECT layer, head, first_mass FROM heads WHERE layer = 1"
    app = open_page("sql", analysis=library.plain, sql=text)
    assert not app.exception
    assert app.text_area[0].value == text
    assert any(said.startswith("4 rows in ") for said in texts(app).plain)
    assert app.dataframe[0].value.shape == (4, 3)
    app.text_area[0].set_value("SELECT count(*) AS n FROM rows").run()
    next(button for button in app.button if button.label == "Run").click().run()
    assert app.query_params["sql"] == "SELECT count(*) AS n FROM rows"
    assert any(said.startswith("1 row in ") for said in texts(app).plain)


def test_an_example_is_one_click_and_fills_in_what_is_chosen(open_page, library):
    app = open_page("sql", analysis=library.plain, layer="1", head="2")
    assert not app.exception
    chooser = next(box for box in app.selectbox if box.label == "Examples")
    chooser.select("Heads: entropy of the rows of the chosen head").run()
    assert not app.exception
    assert "layer = 1 AND head = 2" in app.text_area[0].value and app.dataframe[0].value.shape[0] == 40


@pytest.mark.parametrize(
    "text",
    ["DROP TABLE rows", "SELECT * FROM read_text('/etc/passwd')", f"SELECT '{EVIL}' FROM nowhere", "'", "a" * 9000],
)
def test_what_is_refused_is_said_as_text(open_page, library, texts, text):
    app = open_page("sql", analysis=library.plain, sql=text)
    assert not app.exception and not app.dataframe
    assert any(
        "Expected one SELECT" in said or "There is no table" in said or "function" in said or "cannot be" in said
        for said in texts(app).plain
    )
    assert not any("onerror" in said for said in texts(app).marked)


def test_hostile_values_and_names_are_only_text(open_page, library, texts):
    app = open_page("sql", analysis=library.plain, sql=f'SELECT \'{EVIL}\' AS "{EVIL}", 1.5 AS "a.b[0]" FROM range(3)')
    assert not app.exception
    assert list(app.dataframe[0].value.columns) == [EVIL, "a.b[0]"]
    assert not any("onerror" in said for said in texts(app).marked)


def test_a_private_analysis_is_not_asked_by_others(open_page, library, texts):
    app = open_page("sql", analysis=library.private, sql="SELECT value FROM info")
    assert not app.exception
    assert "secret" not in str(app.dataframe[0].value)
    assert any("There is no analysis" in said for said in texts(app).plain)


def test_a_study_of_the_address_is_asked(open_page, library, texts):
    scores = pa.table({"head": [0, 1, 2], "score": [0.1, 0.2, 0.3]})
    study = save_study(Library(library.folder), "s", {}, [], {"scores": scores})
    app = open_page("sql", study=study)
    assert not app.exception
    assert any("this study" in said for said in texts(app).plain)
    assert app.dataframe[0].value["score"].tolist() == [0.1, 0.2, 0.3]


def test_names_of_tables_are_only_text(open_page, library, texts, monkeypatch):
    """Also where a file of before has one that is not plain."""
    evil = "**[x](https://example.org)** :red[y] $z$"
    monkeypatch.setattr("backend.store.typed_sql.tables", lambda stored: {evil: [], "scores_2": []})
    app = open_page("sql", analysis=library.plain, theme="dark")
    assert not app.exception
    labels = [box.label.replace("\\_", "_") for box in app.expander]
    assert "scores_2 (0 columns)" in labels
    assert not any("[x](" in label or ":red[" in label or "$z$" in label for label in labels)


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"name": ["a", "b"], "x": [1.0, 2.0]}, ("name", "x", "bars")),
        ({"query": [0, 1], "entropy": [1.0, 2.0]}, ("query", "entropy", "line")),
        ({"x": [3, 1], "entropy": [1.0, 2.0]}, ("x", "entropy", "points")),
        ({"layer": [0, 1], "head": [2, 3]}, ("layer", "head", "line")),
        ({"a": ["x", "y"], "b": ["z", "w"]}, None),
        ({"a": [1.0, 2.0]}, None),
        ({"a": [1], "b": [2.0]}, None),
    ],
)
def test_a_picture_is_guessed_from_the_columns(columns, wanted):
    assert choose(pa.table(columns), "", "", "") == wanted


def test_a_choice_that_does_not_fit_is_left_out():
    table = pa.table({"name": ["a", "b"], "x": [1.0, 2.0], "y": [3, 4]})
    assert choose(table, "y", "x", "points") == ("y", "x", "points")
    assert choose(table, "x", "name", "pie") == ("name", "x", "bars")
    assert choose(table, "x", "x", "none") == ("name", "x", "none")


def test_the_answer_is_counted():
    table = pa.table({"a": [1, 2]})
    assert sentence(Answer(table, False, 0.21)) == "2 rows in 0.2 s."
    assert "There are more" in sentence(Answer(table, True, 0.21))
    assert typed_sql.Limits().rows == 20_000


@pytest.mark.parametrize(("across", "whole"), [([0, 1, 2], True), ([0.0, 0.5, 1.0], False)])
def test_whole_numbers_get_whole_ticks(across, whole):
    chart = query_chart(across, [0.1, 0.2, 0.3], x="layer", y="first_mass", mark="points", numbers=True)
    assert ("tickMinStep" in chart.to_dict()["encoding"]["x"]["axis"]) == whole

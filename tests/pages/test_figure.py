"""A figure: its picture and sentence at once; its table, definitions and files when they are asked for."""

import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from backend import statistics
from pages.shared.panels.figure import figure


def page():
    import pyarrow as pa

    from pages.shared.charts.ranked_heads import ranked_heads
    from pages.shared.panels.figure import figure

    chart = ranked_heads(["0.0", "0.1"], [0.5, 0.25], selected="0.1", title="weight")
    table = pa.table({"head": ["0.0", "=1+1"], "weight": [0.5, None]})
    figure("demo", chart, sentence="*Head* <b>0.0</b>", table=table, terms=("entropy",), query="SELECT 1")


def choose(app, what):
    app.button_group[0].set_value(what).run()
    assert not app.exception
    return app


@pytest.fixture
def app():
    started = AppTest.from_function(page, default_timeout=30).run()
    assert not started.exception
    return started


def test_picture_and_sentence_come_first(app):
    assert [text.value for text in app.text] == ["*Head* <b>0.0</b>"]  # as text, never as markup
    assert not app.dataframe
    assert app.button_group[0].options == ["Table", "Definition", "Export", "SQL"]


def test_table_definition_and_query_on_demand(app):
    assert choose(app, "Table").dataframe[0].value["head"].tolist() == ["0.0", "=1+1"]
    caption = statistics.all()["entropy"].caption
    assert caption in [text.value for text in choose(app, "Definition").text]
    assert "SELECT 1" in [text.value for text in choose(app, "SQL").text]


def test_files_of_the_table(app):
    labels = [button.label for button in choose(app, "Export").get("download_button")]
    assert labels == ["Table as Parquet", "Table as CSV", "Table as JSON"]


def test_a_key_that_could_be_markup_is_refused():
    with pytest.raises(ValueError, match="small letters"):
        figure('x"><script>', None, table=pa.table({}))

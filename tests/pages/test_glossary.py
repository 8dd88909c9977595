"""The glossary defines every statistic there is, with unit and range."""

from backend import statistics


def test_every_statistic_is_defined(open_page, library):
    app = open_page("glossary")
    assert not app.exception
    assert [title.value for title in app.subheader] == [name.replace("_", " ") for name in statistics.all()]
    formulas = [text.value for text in app.text if text.value.startswith("Formula: ")]
    assert formulas == [f"Formula: {statistic.formula}" for statistic in statistics.all().values()]
    assert sum(text.value.startswith("Unit: ") for text in app.caption) == len(statistics.all())


def test_search_finds_by_words_of_the_definition(open_page, library):
    app = open_page("glossary")
    next(field for field in app.text_input if field.key == "headwater_glossary").set_value("ENTROPY").run()
    shown = [title.value for title in app.subheader]
    assert "entropy" in shown
    assert len(shown) < len(statistics.all())

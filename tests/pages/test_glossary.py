"""The glossary defines every statistic and every other term there is, with unit and range."""

from backend import statistics, terms


def test_everything_is_defined(open_page, library):
    app = open_page("glossary")
    assert not app.exception
    known = dict(sorted({**terms.all(), **statistics.all()}.items()))
    assert [title.value for title in app.subheader] == [name.replace("_", " ") for name in known]
    formulas = [text.value for text in app.text if text.value.startswith("Formula: ")]
    assert formulas == [f"Formula: {what.formula}" for what in known.values()]
    assert sum(text.value.startswith("Unit: ") for text in app.caption) == len(known)


def test_no_word_means_two_things():
    assert not terms.all().keys() & statistics.all().keys()


def test_search_finds_by_words_of_the_definition(open_page, library):
    app = open_page("glossary")
    next(field for field in app.text_input if field.key == "headwater_glossary").set_value("ENTROPY").run()
    shown = [title.value for title in app.subheader]
    assert "entropy" in shown
    assert len(shown) < len(statistics.all())

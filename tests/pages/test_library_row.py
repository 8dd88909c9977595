"""One row of the list of stored analyses: its title can be changed."""

from backend.store import Library


def test_a_new_title_is_kept_and_an_empty_one_is_not(open_page, library, texts):
    app = open_page()
    key = f"headwater_title_{library.hybrid}"
    next(field for field in app.text_input if field.key == key).set_value("  The blue key  ").run()
    assert not app.exception
    assert Library(library.folder).entry(library.hybrid).title == "The blue key"
    assert "The blue key" in texts(app).plain
    next(field for field in app.text_input if field.key == key).set_value(" ").run()
    assert not app.exception
    assert Library(library.folder).entry(library.hybrid).title == "The blue key"
    assert next(field for field in app.text_input if field.key == key).value == "The blue key"

"""Try it yourself: a changed word, read again by the model of the lesson, beside the lesson's own map."""

import time

import pytest

from backend.store import Library

ME = "d" * 32


@pytest.fixture
def mine(monkeypatch):
    """A browser with a cookie."""
    for module in ("lesson_try", "lesson_page", "run_cards"):
        monkeypatch.setattr(f"pages.shared.panels.{module}.owner", lambda: ME)


def plain(app) -> str:
    return "\n".join(element.value for element in (*app.text, *app.markdown, *app.subheader))


def below(app, what: str):
    app.session_state["headwater_lesson_below"] = what
    return app.run()


def test_a_changed_word_is_read_again_and_both_maps_stand_side_by_side(open_page, mine, data_folder):
    app = open_page("lessons", lesson="what_attention_is", step="2")
    below(app, "Try it yourself")
    app.text_input(key="headwater_lesson_old").set_value("fox")
    app.text_input(key="headwater_lesson_new").set_value("bird").run()
    app.button(key="headwater_lesson_run").click().run()
    assert not app.exception
    for _ in range(60):
        if "tried" in app.query_params:
            break
        time.sleep(0.25)
        app.run()
    changed = Library(data_folder).open(app.query_params["tried"])
    assert [token.label for token in changed.tokens_list()][2] == "·bird"
    texts = plain(app)
    assert "The text: head 0.0, 61 tokens" in texts and "Changed: head 0.0, 61 tokens" in texts
    app.button(key="headwater_next").click().run()
    assert "tried" not in app.query_params


@pytest.mark.parametrize("old, said", [("giraffe", "'giraffe' does not stand in the prompt")])
def test_a_word_that_is_not_there_is_said(open_page, mine, old, said):
    app = open_page("lessons", lesson="what_attention_is")
    below(app, "Try it yourself")
    app.text_input(key="headwater_lesson_old").set_value(old).run()
    app.button(key="headwater_lesson_run").click().run()
    assert not app.exception and said in plain(app)


def test_a_server_that_only_shows_offers_no_run(open_page, mine, monkeypatch):
    monkeypatch.setenv("HEADWATER_READ_ONLY", "1")
    app = open_page("lessons", lesson="what_attention_is", tried="x")
    assert not app.exception and "Try it yourself" not in app.get("button_group")[0].options

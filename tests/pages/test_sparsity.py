"""The page of sparsity from a link: its sentences, its choices, and what it says where something is missing."""

import pytest

from tests.stored import HOSTILE, store


@pytest.fixture
def page(open_page, library):
    def run(**query):
        app = open_page("sparsity", **query)
        assert not app.exception
        return app

    return run


def plain(app) -> str:
    return "\n".join(element.value for element in app.text)


def test_the_first_part_says_how_concentrated_and_which_pattern(page, library):
    said = plain(page(analysis=library.plain, layer="1", head="2"))
    assert "Half of the 8 heads need at most" in said and "uniform attention would need 95 %" in said
    assert "Patterns of 8 heads:" in said
    assert "Head 1.2 is " in said and "with 10 % of the pairs" in said
    assert "The map of head 1.2 with" in said
    assert "The last row of head 1.2 sees 40 keys" in said


def test_the_budget_is_in_the_address(page, library):
    app = page(analysis=library.plain, budget="50")
    assert "with 50 % of the pairs" in plain(app)
    assert "with 10 % of the pairs" in plain(page(analysis=library.plain, budget="<b>"))


def test_heads_without_exact_maps_are_said_to_have_none(page, library):
    some = store(library.folder, n_tokens=40, exact=(1,), title="some heads")
    said = plain(page(analysis=some, head="0"))
    assert "Patterns of 2 heads:" in said and "its pattern cannot be drawn" in said
    none = store(library.folder, n_tokens=40, exact=(), title="no heads")
    assert "No exact map of a head was kept" in plain(page(analysis=none))


def test_one_token_has_nothing_to_concentrate(page, library):
    one = store(library.folder, n_tokens=1, text="a", title="one")
    assert "there is nothing to concentrate" in plain(page(analysis=one))


def test_hostile_text_is_never_markdown_or_html(page, library, texts):
    for marked in texts(page(analysis=library.plain)).marked:
        assert "onerror" not in marked and HOSTILE not in marked

"""A text that turns the direction of writing does not turn what stands after it."""

import pytest

from backend.isolated import isolated


@pytest.mark.parametrize("text", ["", "The cat", "12 + 3", "naïve café"])
def test_texts_that_turn_nothing_stay_as_they_are(text):
    assert isolated(text) == text


@pytest.mark.parametrize(
    ("text", "ends"),
    [("abc \u202e def", "\u2069"), ("שלום", "\u2069"), ("a \u2067 b", "\u2069\u2069"), ("a \u2067 b \u2069", "\u2069")],
)
def test_what_is_opened_is_closed(text, ends):
    """An override ends with the isolate around it; an isolate that the text opens is closed by us."""
    found = isolated(text)
    assert found == f"\u2068{text}{ends}"
    assert sum(found.count(opening) for opening in "\u2066\u2067\u2068") == found.count("\u2069")

"""The switch "Without sinks" (K-05) on every page: one meaning, and a sentence where numbers are with sinks."""

import re

import numpy as np
import pytest

from backend.terms import all as terms
from pages.shared.panels.head_parts import HONOURED, PARTS, WITH_SINKS
from tests.backend.sinks.planted import sink_at, stored
from tests.stored import store

OUT = "what the rows of this head gave to its sink is taken out; shares are of what is left."


def said(app) -> str:
    return "\n".join(element.value for element in app.text)


@pytest.fixture
def planted(library):
    return stored(library.folder, [sink_at(40, 0, 3.0), sink_at(40, 0, 3.0)])


def test_every_part_honours_the_switch_or_says_why_not(open_page, planted):
    assert set(PARTS) >= set(WITH_SINKS) | HONOURED and not HONOURED & set(WITH_SINKS)
    for part in PARTS:
        app = open_page("heads", analysis=planted.id, sinkfree="on", part=part)
        assert not app.exception, part
        assert ("With sinks, although" in said(app)) == (part not in HONOURED), part


def test_text_and_lines_show_shares_of_what_is_left(open_page, planted):
    text = open_page("heads", analysis=planted.id, sinkfree="on", part="text", tokens="20")
    assert said(text).count(OUT) == 2  # the row's bars and the text
    # Without its sink, row 20 looks at its 20 other keys alike.
    assert "What is left without sinks is spread: no key gets more than 5 %; uniform would be 5 %." in said(text)
    to = open_page("heads", analysis=planted.id, sinkfree="on", part="text", direction="to", tokens="0")
    assert "or they are the sinks that were taken out" in said(to)
    lines = open_page("heads", analysis=planted.id, sinkfree="on", part="lines")
    assert said(lines).count(OUT) == 2
    plain = open_page("heads", analysis=planted.id, part="text", tokens="20")
    assert OUT not in said(plain) and "the first token: a sink" in said(plain)


def test_grid_list_and_sentence_are_of_the_same_rows(open_page, planted):
    app = open_page("heads", analysis=planted.id, sinkfree="on", measure="entropy")
    # Without its sink, row i looks at i keys alike.
    mean = np.mean([np.log(i) for i in range(1, 40)])
    assert f"Head 0.0: entropy without sinks {mean:.2f} nats" in said(app)
    assert "2 of 2 heads give token 0 more than 30 % of their attention. Below, sinks are taken out." in said(app)


@pytest.mark.parametrize("page", ["sinks", "sparsity"])
def test_pages_with_sinks_say_why(open_page, planted, page):
    assert "With sinks, although" in said(open_page(page, analysis=planted.id, sinkfree="on"))
    assert "With sinks, although" not in said(open_page(page, analysis=planted.id))


@pytest.mark.parametrize("kind", ["plain", "hybrid", "pooled"])
def test_heads_and_sinks_count_the_same_sink_heads(open_page, library, kind):
    id = store(library.folder, n_tokens=30, exact=()) if kind == "pooled" else getattr(library, kind)
    heads = re.search(r"(\d+ of \d+) heads gives? token 0", said(open_page("heads", analysis=id)))
    sinks = re.search(r"(\d+ of \d+) heads gives? token 0", said(open_page("sinks", analysis=id)))
    assert heads and sinks and heads[1] == sinks[1]


def test_planted_sink_heads_are_counted_on_both_pages(open_page, planted):
    for page in ("heads", "sinks"):
        assert "2 of 2 heads give token 0" in said(open_page(page, analysis=planted.id))


def test_the_switch_has_one_meaning_in_the_glossary():
    assert "The switch Without sinks means this on every page" in terms()["sink_free_view"].caption

"""Text, lines and next tokens of the page Heads: numbers as those of the map, texts literal, bounds said."""

import json

import numpy as np
import pytest
import torch

from backend.models import LoadedModel
from backend.options import Options
from backend.pipeline import analyse
from backend.store import Library
from backend.words import Group
from pages.shared.line_view import MOST_LINES, strongest
from pages.shared.panels.unit_sentences import from_sentence, share, to_sentence
from pages.shared.text_view import MOST_UNITS, TextView
from tests.backend.tiny import build
from tests.stored import HOSTILE, store


def told(app, component: str) -> dict:
    for element in app.get("bidi_component"):
        if element.proto.component_name == component:
            return json.loads(element.proto.json or element.proto.mixed.json)
    raise AssertionError(f"the page has no {component}")


def plain(app) -> str:
    return "\n".join(element.value for element in app.text)


def words(n):
    return [Group(at, at + 1, "w", f"w{at}") for at in range(n)]


def labels(n):
    return [f"w{at}" for at in range(n)]


def test_text_is_coloured_by_the_row_of_the_link(open_page, library):
    analysis = Library(library.folder).open(library.plain)
    app = open_page("heads", analysis=library.plain, part="text", layer="1", head="2", tokens="20")
    assert not app.exception
    shown = told(app, "headwater_text_view")
    assert shown["values"][:21] == pytest.approx(analysis.map(1, 2)[20, :21].tolist(), abs=1e-6)
    assert shown["values"][21:] == [None] * 19  # later keys are not visible, which is no zero
    assert shown["chosen"] == [20]
    assert "".join(shown["labels"]).startswith("P") and len(shown["labels"]) == 40


def test_several_tokens_and_the_other_direction(open_page, library):
    analysis = Library(library.folder).open(library.plain)
    link = {"analysis": library.plain, "part": "text", "layer": "1", "head": "2", "tokens": "3,17"}
    whole = analysis.map(1, 2)
    rows = told(open_page("heads", **link), "headwater_text_view")
    mean = (whole[3] + whole[17]) / 2
    assert [v for v in rows["values"] if v is not None] == pytest.approx(mean[:18].tolist(), abs=1e-6)
    columns = told(open_page("heads", **link, direction="to"), "headwater_text_view")
    assert columns["values"][:3] == [None] * 3
    assert columns["values"][3:] == pytest.approx((whole[3:, 3] + whole[3:, 17]).tolist(), abs=1e-6)


@pytest.mark.parametrize("unit", ["word", "sentence", "segment", "nonsense"])
def test_every_unit_can_be_drawn(open_page, library, unit):
    for part in ("text", "lines"):
        app = open_page("heads", analysis=library.plain, part=part, unit=unit, tokens="999,x,-3")
        assert not app.exception


def test_lines_are_the_strongest_links(open_page, library):
    analysis = Library(library.folder).open(library.plain)
    app = open_page("heads", analysis=library.plain, part="lines", layer="0", head="1", query="5")
    assert not app.exception
    shown = told(app, "headwater_line_view")
    whole = analysis.map(0, 1)
    assert len(shown["lines"]) == 40 * 41 // 2 and shown["chosen"] == 5
    for row, key, weight in shown["lines"][-20:]:
        assert weight == pytest.approx(whole[row, key], abs=1e-5)
    assert [line[2] for line in shown["lines"]] == sorted(line[2] for line in shown["lines"])
    part = told(
        open_page("heads", analysis=library.plain, part="lines", rows="10:20", columns="0:8"), "headwater_line_view"
    )
    assert part["first"] == [10, 0] and len(part["left"]) == 10 and len(part["right"]) == 8


def test_hidden_sinks_are_not_coloured_and_what_they_hold_is_said(open_page, library):
    analysis = Library(library.folder).open(library.plain)
    keys = analysis.keys(layer=0, head=1).to_pylist()
    sinks = sorted(row["key"] for row in keys if row["visible_rows"] >= 16 and row["received_mean"] > 0.1)
    assert sinks
    app = open_page("heads", analysis=library.plain, part="text", layer="0", head="1", hide="1", tokens="30")
    shown = told(app, "headwater_text_view")
    assert shown["leftOut"] == sinks
    held = analysis.map(0, 1)[30, sinks].sum()
    assert f"they hold {share(float(held))} of the attention" in plain(app)
    lines = told(
        open_page("heads", analysis=library.plain, part="lines", layer="0", head="1", hide="1"), "headwater_line_view"
    )
    assert not {line[1] for line in lines["lines"]} & set(sinks)


def test_a_head_without_exact_map_says_so(open_page, library):
    id = store(library.folder, n_tokens=40, exact=(1,), title="some heads")
    for part in ("text", "lines"):
        app = open_page("heads", analysis=id, head="0", part=part)
        assert not app.exception and "was not kept" in plain(app)


def test_an_analysis_without_candidates_says_so(open_page, library):
    app = open_page("heads", analysis=library.plain, part="generation")
    assert not app.exception and "holds no candidates" in plain(app)


def test_texts_are_literal(open_page, library, texts):
    for part in ("text", "lines"):
        app = open_page("heads", analysis=library.plain, part=part)
        assert not any("onerror" in marked or HOSTILE in marked for marked in texts(app).marked)


def test_one_token(open_page, library):
    id = store(library.folder, n_tokens=1, text="a", title="one")
    for part in ("labels", "card", "alike", "text", "lines", "generation", "notes"):
        assert not open_page("heads", analysis=id, part=part).exception


def test_long_texts_are_cut_to_a_stretch_around_the_chosen():
    n = 32_768
    view = TextView(words(n), np.zeros(n), np.ones(n, bool), [20_000], "x", "y").message()
    assert len(view["labels"]) == MOST_UNITS and view["first"] <= 20_000 < view["first"] + MOST_UNITS
    assert view["all"] == n and view["labels"][20_000 - view["first"]] == "w20000"


def test_case_58_lines_have_a_stated_bound():
    weights = np.random.default_rng(0).random((400, 400))
    lines = strongest(weights, np.tril(np.ones((400, 400), bool)))
    assert len(lines) == MOST_LINES
    least = lines[0][2]
    assert np.count_nonzero(np.tril(weights) >= least) == MOST_LINES


def test_sentences_name_what_they_see():
    seen = np.ones(5, bool)
    row = np.array([0.71, 0.1, 0.1, 0.05, 0.04])
    assert from_sentence(row, seen, labels(5), [4]) == "71 % of this row is on key 0 “w0”, the first token: a sink."
    assert "the token itself" in from_sentence(row[::-1], seen, labels(5), [4])
    assert "the one just before" in from_sentence(np.array([0.1, 0.1, 0.1, 0.6, 0.1]), seen, labels(5), [4])
    assert from_sentence(np.full(5, 0.2), seen, labels(5), [4]).startswith(
        "The attention is spread: no key gets more than 20 %"
    )
    assert from_sentence(row, np.zeros(5, bool), labels(5), [0]) == "The chosen queries see no key."
    assert "3 rows, on average," in from_sentence(row, seen, labels(5), [2, 3, 4])
    column = to_sentence(np.array([0.0, 0.5, 0.3]), np.array([False, True, True]), labels(3), labels(3), [1])
    assert column == "1 “w1” gets 40 % of a row that may look there, on average; most from query 1 “w1”: 50 %."


@pytest.mark.parametrize("value, text", [(0.714, "71 %"), (0.0421, "4.2 %"), (0.0004, "below 0.1 %"), (1.0, "100 %")])
def test_shares(value, text):
    assert share(value) == text


def test_generation_shows_each_step_with_what_could_have_come(open_page, library):
    model = LoadedModel.wrap(build("llama"))
    ids = [5, 9, 11, 30, 31]
    analysis = analyse(model, ids, options=Options(new_tokens=3), library=Library(library.folder))
    tokens = [token.token_id for token in analysis.tokens_list()]
    link = {"analysis": analysis.id, "part": "generation", "layer": "1", "head": "3"}
    app = open_page("heads", **link, step="1")
    app.session_state["head_generation_below"] = "Table"
    app.run()
    assert not app.exception
    table = next(one.value for one in app.dataframe if "logprob" in one.value.columns)
    assert table["token id"][0] == tokens[6]  # greedy: the likeliest after position 5 is what stands at 6
    with torch.no_grad():
        logits = model.model(torch.tensor([tokens[:6]])).logits[0, -1].log_softmax(-1)
    assert table["logprob"][0] == pytest.approx(logits.max().item(), abs=1e-4)
    assert "was written: candidate 0 with" in plain(app)
    shown = told(app, "headwater_text_view")
    assert shown["values"][:6] == pytest.approx(analysis.map(1, 3, slice(5, 6))[0, :6].tolist(), abs=1e-6)
    assert shown["values"][6] is None  # what is written now was not there to be looked at

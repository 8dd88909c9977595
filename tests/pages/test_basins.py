"""The page of basins in the real app: pictures, sentences, address, bad input in words."""

import pytest

from backend.models import LoadedModel
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Library
from tests.backend.tiny import build
from tests.backend.tiny_tokenizers import byte_level
from tests.stored import HOSTILE, store

DOCUMENTS = ["the cat sat", "on the mat .", HOSTILE, "unable table", "the cat sat"]


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(
        build("llama", vocab_size=300, max_position_embeddings=400), byte_level(), name="tiny-llama"
    )


@pytest.fixture
def analysis(model, library):
    return analyse(model, Prompt(documents=DOCUMENTS, question="the cat sat on ?"), library=Library(library.folder))


def charts(app) -> list[str]:
    return [element.proto.spec for element in app.get("vega_lite_chart")]


def test_the_basin_of_a_prompt(open_page, analysis, texts):
    app = open_page("basins", analysis=analysis.id)
    assert not app.exception
    said = texts(app)
    assert any("gets most from all tokens of the question (all heads, without sinks)" in text for text in said.plain)
    assert any(
        ("gets" in text and "less than the ends on average" in text) or "No part in the middle" in text
        for text in said.plain
    )
    assert any("give" in text and "to other parts before them" in text for text in said.plain)
    assert "The same text stands in parts 1 and 5: their order cannot be told apart." in said.plain
    assert any(HOSTILE[:30] in text for text in said.plain) and not any("<img" in text for text in said.marked)
    assert len(charts(app)) >= 3


def test_the_address_chooses_rows_heads_sinks_and_the_marked_document(open_page, analysis, texts):
    query = {"look": "last", "scope": "head", "layer": "1", "head": "3", "by": "part", "gold": "3", "sinkfree": "off"}
    app = open_page("basins", analysis=analysis.id, **query)
    assert not app.exception
    assert any("from the last token (head 1.3)" in text for text in texts(app).plain)
    assert any(text.startswith("★ document 3") for text in texts(app).plain)
    assert {k: v for k, v in app.query_params.items() if k in query} == query


def test_what_the_address_gets_wrong_is_said(open_page, analysis, texts):
    app = open_page("basins", analysis=analysis.id, look="nobody", gold="9", scope="x")
    assert not app.exception
    said = " ".join(texts(app).plain)
    assert "look='nobody'" in said and "there are parts 1 to 5" in said and "scope='x'" in said


def test_a_prompt_of_one_part_is_refused_in_words(open_page, library, texts):
    app = open_page("basins", analysis=library.plain)
    assert not app.exception
    assert any("This prompt has one part only" in text for text in texts(app).plain)


def test_without_an_analysis_in_the_address_one_with_documents_is_shown(
    open_page, model, library, texts, tmp_path, monkeypatch
):
    store(tmp_path, id="bundled-a", title="A story", n_tokens=20)
    analyse(model, Prompt(documents=DOCUMENTS, question="the cat ?"), library=Library(tmp_path))
    monkeypatch.setattr("backend.shelf.bundled_folder", lambda: tmp_path)
    app = open_page("basins")
    assert not app.exception
    said = texts(app).plain
    assert any("A bundled analysis is shown" in text for text in said)
    assert any("gets most from all tokens of the question" in text for text in said)
    assert "analysis" not in app.query_params
    other = open_page("sinks")
    assert not other.exception and any("20 rows" in text for text in texts(other).plain)


def test_one_document_has_no_basin(open_page, model, library, texts):
    one = analyse(model, Prompt(documents=["the cat"], question="the mat ?"), library=Library(library.folder))
    app = open_page("basins", analysis=one.id)
    assert not app.exception
    assert any("Two parts are needed to compare" in text for text in texts(app).plain)


def test_near_or_far(open_page, analysis, texts):
    app = open_page("basins", analysis=analysis.id, part="distance", layer="1", head="2", bases="20000_nonsense")
    assert not app.exception
    said = " ".join(texts(app).plain)
    assert "Head 1.2 puts" in said and "The entropy of head 1.2 grows by" in said
    assert "Up to the training length of 400 tokens, the wave" in said
    assert len(charts(app)) == 4
    assert any("base 20,000" in chart for chart in charts(app))


def test_an_analysis_without_rotary_facts_says_so(open_page, library, texts):
    app = open_page("basins", analysis=library.plain, part="distance")
    assert not app.exception
    assert any("before the rotary frequencies were kept" in text for text in texts(app).plain)


@pytest.fixture(scope="module")
def studies(model):
    """Finished studies of the same model, in memory of their own library: name -> (definition, parameters)."""
    from backend.studies import calibration, permutation, what_helps

    prompt = {"documents": DOCUMENTS[:4], "question": "the cat ?"}
    return {
        "position": (permutation.STUDY, permutation.Parameters(prompt=prompt, answer="the mat")),
        "matter": (calibration.STUDY, calibration.Parameters(prompt=prompt)),
        "help": (
            what_helps.STUDY,
            what_helps.Parameters(prompt=prompt, answer="the mat", orders=2, new_tokens=1, exact=False),
        ),
    }


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("position", "Of the differences between shifts and places, the place explains"),
        ("matter", "document 2 (marked) is at place"),
        ("help", "made no difference beyond chance"),
    ],
)
def test_a_link_shows_what_a_study_found(open_page, analysis, model, library, studies, texts, part, words):
    from backend.studies import run_study

    definition, parameters = studies[part]
    found = run_study(definition, model, parameters, library=Library(library.folder))
    app = open_page("basins", analysis=analysis.id, part=part, study=found.id, gold="2")
    assert not app.exception
    said = texts(app)
    alternatives = [words, "helped", "hurt"] if part == "help" else [words]
    assert any(one in text for one in alternatives for text in said.plain)
    assert not any("<img" in text for text in said.marked)
    assert len(charts(app)) >= 1


@pytest.mark.parametrize("part", ["position", "matter", "help", "needle", "encoder"])
def test_every_part_opens_without_a_study(open_page, analysis, part):
    app = open_page("basins", analysis=analysis.id, part=part)
    assert not app.exception

"""What is made from a private analysis on a page is private too, and belongs to the same person."""

from types import SimpleNamespace

import pytest
import streamlit as st

from backend.jobs import process_jobs
from backend.models import LoadedModel
from backend.options import Options
from backend.pipeline import analyse
from backend.store import Library
from backend.studies import run_study
from backend.studies.random_repeat import STUDY, Parameters
from pages.shared.opened import beside
from pages.shared.panels import exact_again, lesson_try, page_study
from pages.shared.panels.model_choice import ModelChoice
from pages.shared.panels.run_cards import STARTED
from pages.shared.view_state import ViewState
from tests.backend.tiny import build

ME = "e" * 32
TOKENS = [1, 7, 9, 23, 9, 41, 7, 9, 23, 55]


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama"), name="tiny-llama")


@pytest.fixture
def me(library, model, monkeypatch):
    """One browser that may load the model; its runs are those of `started`."""
    for module in ("panels.exact_again", "panels.study_plan", "panels.lesson_try", "panels.run_cards", "opened"):
        monkeypatch.setattr(f"pages.shared.{module}.owner", lambda: ME)
    for module in ("exact_again", "study_plan", "lesson_try"):
        monkeypatch.setattr(f"pages.shared.panels.{module}.load", lambda name, revision=None: model)
    monkeypatch.setattr(st, "session_state", {})
    return Library(library.folder)


def private(library, model, **options):
    return analyse(model, TOKENS, options=Options(**options), library=library, visibility="private", owner=ME)


def made(library):
    """The entry of what was started last."""
    job = process_jobs().wait(st.session_state[STARTED][-1], 60)
    assert job.state == "done", job
    return library.entry(job.analysis_id)


def start_study(analysis, monkeypatch):
    """As a press on Run beside this analysis."""
    for name in ("study_plan", "run_cards"):
        monkeypatch.setattr(page_study, name, lambda *given: None)
    monkeypatch.setattr(st, "button", lambda *given, **more: True)
    choice = ModelChoice("tiny-llama", "Tiny Llama", packaged=True)
    page_study._start(STUDY, Parameters(length=6, samples=2), choice, analysis.info)


def test_what_is_started_beside_a_private_analysis_is_private(me, model, monkeypatch):
    analysis = private(me, model, exact_maps="none")
    state = ViewState(analysis=analysis.id, kind="self", layer=1, head=2)
    exact_again._start(state, analysis, "again")
    assert (made(me).visibility, made(me).owner) == ("private", ME)
    start_study(analysis, monkeypatch)
    assert (made(me).visibility, made(me).owner) == ("private", ME)


def test_a_changed_word_of_a_private_analysis_is_private(me, model, monkeypatch):
    analysis = private(me, model)
    read = []
    monkeypatch.setattr(lesson_try, "analyse", lambda *given, **more: read.append(more) or analysis)
    monkeypatch.setattr(lesson_try, "edited_words", lambda prompt, edits: prompt)
    beside = SimpleNamespace(id=analysis.id, info={"prompt": {"text": "one two"}})
    lesson_try._start("tiny-llama", beside, "one", "two")
    made(me)
    assert read[0]["visibility"] == "private" and read[0]["owner"] == ME


def test_beside_everything_else_it_is_shared_by_its_link(me, model, monkeypatch):
    shared = analyse(model, TOKENS, library=me, owner=ME)
    start_study(shared, monkeypatch)
    assert made(me).visibility == "link" and made(me).made_of == (shared.id,)
    assert beside(None) == beside("bundled-first") == {"visibility": "link", "made_of": ()}


def test_what_is_made_private_later_hides_what_was_made_of_it_on_its_pages(library, model, open_page, texts):
    own = Library(library.folder)
    shared = analyse(model, TOKENS, library=own, owner=ME)
    study = run_study(STUDY, model, Parameters(length=6, samples=2), library=own, owner=ME, made_of=(shared.id,)).id
    assert "samples" in "\n".join(texts(open_page("sql", study=study)).marked)  # a table of the study
    own.update(shared.id, visibility="private")
    for page in ("studies", "sql"):
        app = open_page(page, study=study)
        assert not app.exception
        said = "\n".join((*texts(app).plain, *texts(app).marked))
        assert f"There is no analysis {study!r} here" in said and "samples" not in said, page

"""A study started from a page: plan, run in the background, the result shows itself and is in the address."""

from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from backend.jobs import process_jobs
from backend.models import LoadedModel
from backend.models.bundled import ModelChoice
from backend.store import Library
from backend.studies import run_study
from backend.studies.random_repeat import STUDY, Parameters
from pages.shared.address import STATE
from tests.backend.tiny import build

ME = "c" * 32


def page():
    import streamlit as st

    from backend.studies.random_repeat import STUDY, Parameters
    from pages.shared.address import read, write
    from pages.shared.panels.page_study import page_study
    from pages.shared.view_state import to_query

    state, _ = read("heads")
    study = page_study(state, STUDY, Parameters(length=6, samples=2), {"model": "tiny-llama", "revision": None})
    st.text("nothing is shown" if study is None else f"shown: {study.id}")
    write("heads", state, to_query(state))


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama"), name="tiny-llama")


@pytest.fixture
def app(model, library, monkeypatch):
    for module in ("panels.page_study", "panels.study_plan", "panels.run_cards", "opened"):
        monkeypatch.setattr(f"pages.shared.{module}.owner", lambda: ME)
    choice = ModelChoice("tiny-llama", "Tiny Llama", "A tiny model.")
    monkeypatch.setattr("pages.shared.panels.page_study.available", lambda: [choice])
    monkeypatch.setattr("pages.shared.panels.study_plan.load", lambda name, revision=None: model)
    done = SimpleNamespace(done=lambda: True, result=lambda: None, exception=lambda: None)
    monkeypatch.setattr("pages.shared.panels.study_plan.loading", lambda name: done)
    return AppTest.from_function(page, default_timeout=60)


def texts(app):
    assert not app.exception
    return [text.value for text in app.text]


def test_run_and_result(app, library):
    app.run()
    assert STUDY.question in texts(app)
    assert any("2 texts of 13 tokens" in text for text in texts(app))  # the plan, before anything runs
    next(button for button in app.button if button.label == "Run").click()
    app.run()
    job = process_jobs().jobs(ME)[0]
    assert process_jobs().wait(job.id, 60).state == "done"
    app.run()
    app.run()  # the end of the work was put into the view by the run before
    assert f"shown: {process_jobs().get(job.id).analysis_id}" in texts(app)
    assert app.session_state[STATE].study == process_jobs().get(job.id).analysis_id


def test_finished_ones_are_offered_and_shown_from_the_address(app, model, library):
    small = Parameters(length=6, samples=2)
    study = run_study(STUDY, model, small, library=Library(library.folder), owner=ME)
    app.run()
    assert "nothing is shown" in texts(app)
    assert len(app.selectbox[0].options) == 1
    assert app.selectbox[0].options[0].startswith("Random repeat · tiny-llama")
    app = AppTest.from_function(page, default_timeout=60)
    app.query_params["study"] = study.id
    app.run()
    assert f"shown: {study.id}" in texts(app)


def test_one_that_ended_while_the_page_was_left_is_offered(app, model, library):
    """Started and finished in another tab, or before this one was opened: the session knows nothing of it."""

    def work(progress, cancel):
        found = run_study(STUDY, model, Parameters(length=6, samples=2), library=Library(library.folder), owner=ME)
        return found.id

    job = process_jobs().submit("away", work, type="study", owner=ME)
    id = process_jobs().wait(job.id, 60).analysis_id
    app.run()
    assert "nothing is shown" in texts(app)
    assert any(text.startswith("Finished while you were away: Random repeat") for text in texts(app))
    next(button for button in app.button if button.label == "Show it").click()
    app.run()
    assert f"shown: {id}" in texts(app)
    assert not any(text.startswith("Finished while") for text in texts(app))


def test_an_address_with_an_unknown_study_says_so(app):
    app.query_params["study"] = "nosuchstudyanywhere000"
    app.run()
    assert "nothing is shown" in texts(app)
    assert any("There is no analysis" in text for text in texts(app))

"""The page of studies: start, stop, carry on, look, share; in the real app on a data folder of its own."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from backend.errors import Cancelled
from backend.jobs import Job, process_jobs
from backend.models import LoadedModel
from backend.models.bundled import ModelChoice
from backend.store import Library, save_study
from backend.studies import run_study, unfinished
from backend.studies.random_repeat import STUDY, Parameters
from pages.shared.address import STATE
from pages.shared.charts.layer_head_heat import layer_head_heat
from pages.shared.panels.run_cards import sentence
from tests.backend.tiny import build
from tests.stored import HOSTILE

ME = "b" * 32
SMALL = Parameters(length=6, samples=3)


@pytest.fixture(scope="module")
def model():
    return LoadedModel.wrap(build("llama"), name="tiny-llama")


@pytest.fixture
def study(model, library):
    return run_study(STUDY, model, SMALL, library=Library(library.folder))


@pytest.fixture
def offered(model, monkeypatch):
    """The app offers the tiny model and no other, to one browser."""
    for module in ("panels.study_form", "panels.study_plan", "panels.run_cards", "opened"):
        monkeypatch.setattr(f"pages.shared.{module}.owner", lambda: ME)
    monkeypatch.setattr(
        "pages.shared.panels.model_choice.available", lambda: [ModelChoice("tiny-llama", "Tiny Llama", "A tiny model.")]
    )
    monkeypatch.setattr("pages.shared.panels.study_plan.load", lambda name, revision=None: model)
    monkeypatch.setattr("pages.shared.panels.study_form.load", lambda name: model)
    done = SimpleNamespace(done=lambda: True, result=lambda: None, exception=lambda: None)
    monkeypatch.setattr("pages.shared.panels.study_plan.loading", lambda name: done)


def press(app, label):
    next(b for b in app.button if b.label == label).click()
    return app.run()


def open_form(open_page):
    app = open_page("studies")
    app.session_state["headwater_study_start"] = True
    return app.run()


def choose_study(app, name="random_repeat"):
    return app.selectbox(key="headwater_study_name").select(name).run()


def choose_small(app):
    choose_study(app)
    for key, value in (("length", 6), ("samples", 3)):
        next(n for n in app.number_input if n.key == f"headwater_repeat_{key}").set_value(value)
    return app.run()


def strongest(study, score) -> dict:
    rows = study.table("scores").to_pylist()
    return max(rows, key=lambda row: row[score])


def test_a_link_shows_what_the_study_found(open_page, study, texts):
    app = open_page("studies", study=study.id)
    assert not app.exception
    best = strongest(study, "induction")
    plain = texts(app).plain
    assert any(
        f"the strongest induction head is {best['layer']}.{best['head']} with {best['induction']:.3f}" in t
        for t in plain
    )
    assert any(t.startswith(f"Head {best['layer']}.{best['head']}: induction {best['induction']:.3f} ±") for t in plain)
    assert app.query_params == {"study": study.id}
    assert app.dataframe[0].value.shape[0] == 16


def test_looking_at_a_study_loads_no_model(open_page, study, monkeypatch):
    monkeypatch.setattr("pages.shared.panels.study_plan.loading", lambda name: pytest.fail("a model was asked for"))
    for query in ({}, {"study": study.id}):
        app = open_page("studies", **query)
        assert not app.exception
        assert any(expander.label == "Start a study" for expander in app.expander)


def test_score_and_head_are_in_the_address(open_page, study, texts):
    app = open_page("studies", study=study.id, measure="previous_token", layer="1", head="5")
    assert any(t.startswith("Head 1.5: ") for t in texts(app).plain)
    assert any("previous token head is" in t for t in texts(app).plain)
    assert app.query_params == {"study": study.id, "measure": "previous_token", "layer": "1", "head": "5"}
    next(g for g in app.get("button_group") if g.key == "headwater_repeat_score").set_value("duplicate_token").run()
    assert app.query_params == {"study": study.id, "measure": "duplicate_token", "layer": "1", "head": "5"}
    assert any("duplicate token head is" in t for t in texts(app).plain)


@pytest.mark.parametrize(
    ("query", "words", "kept"),
    [
        (
            {"layer": "9", "head": "1"},
            "There is no layer 9 (0 to 1 exist); layer 1 is shown.",
            {"layer": "1", "head": "1"},
        ),
        ({"measure": "charm"}, "no measure 'charm'", {}),
        ({"layer": "two"}, "a whole number was expected", {}),
    ],
)
def test_an_edited_link_falls_to_the_nearest_view_with_one_notice(open_page, study, texts, query, words, kept):
    app = open_page("studies", study=study.id, **query)
    assert not app.exception
    assert sum(words in text for text in texts(app).plain) == 1
    assert app.query_params == {"study": study.id, **kept}


def test_unknown_private_and_wrong_ids_show_no_study(open_page, library, model, texts):
    private = run_study(STUDY, model, SMALL, library=Library(library.folder), visibility="private", owner="x" * 32).id
    for id in ("no-such", private, library.plain, "../x"):
        app = open_page("studies", study=id)
        assert not app.exception
        assert sum(("study" in text and "shown" in text) or "left out" in text for text in texts(app).plain) == 1
        assert app.query_params == {}


def test_on_the_page_of_heads_a_study_shows_the_first_analysis_it_kept(open_page, library, model, texts):
    own = Library(library.folder)
    study = run_study(STUDY, model, Parameters(length=6, samples=2, keep_analyses=True), library=own)
    app = open_page("heads", study=study.id, layer="1")
    assert not app.exception
    assert app.session_state[STATE].analysis == study.info["members"][0]
    assert sum("The first analysis of the study is shown." in text for text in texts(app).plain) == 1
    app = open_page("heads", analysis=study.id)
    assert app.session_state[STATE].analysis == study.info["members"][0]
    assert any("The link leads to a study, which has no maps of its own." in text for text in texts(app).plain)
    app = open_page("studies", study=study.id)
    links = [link.proto for link in app.get("page_link") if link.proto.page == "heads"]
    assert {f"analysis={member}" for member in study.info["members"]} <= {link.query_string for link in links}


def test_a_study_is_listed_on_the_first_page_and_opened_on_its_own(open_page, study, texts):
    app = open_page()
    assert not app.exception
    links = [link.proto for link in app.get("page_link") if link.proto.label == "Open"]
    assert [link.page for link in links if link.query_string == f"study={study.id}"] == ["studies"]
    assert "Random repeat · tiny-llama" in texts(app).plain


def test_a_study_of_another_program_is_shown_as_its_tables(open_page, library, texts):
    import pyarrow as pa

    id = save_study(
        Library(library.folder), "unheard_of", {}, ["gone"], {"scores": pa.table({"a": [1, 2]})}, title=HOSTILE
    )
    app = open_page("studies", study=id)
    assert not app.exception
    assert app.dataframe[0].value["a"].tolist() == [1, 2]
    assert not any("onerror" in text for text in texts(app).marked)


def test_the_form_says_what_it_takes_and_runs_in_the_background(open_page, library, offered, texts):
    app = choose_small(open_form(open_page))
    assert not app.exception
    assert any(text.startswith("3 texts of 13 tokens · about ") for text in texts(app).plain)
    press(app, "Run")
    (job,) = process_jobs().jobs()
    job = process_jobs().wait(job.id, 60)
    assert (job.state, job.type) == ("done", "study")
    app.run()
    opened = [link.proto for link in app.get("page_link") if link.proto.label == "Open"]
    assert {(link.page, link.query_string) for link in opened} >= {("studies", f"study={job.analysis_id}")}
    assert Library(library.folder).open(job.analysis_id).info["parameters"]["length"] == 6


def test_what_the_model_cannot_read_is_refused_on_the_form(open_page, library, offered, texts):
    app = open_form(open_page)
    choose_study(app)
    next(n for n in app.number_input if n.key == "headwater_repeat_length").set_value(64)
    app.run()
    assert "Two copies take 129 tokens and the model takes 128. Shorten them." in texts(app).plain


def test_a_stopped_study_is_carried_on_or_discarded(open_page, library, offered, model, texts):
    own = Library(library.folder)
    for seed in (0, 1):
        cancel = threading.Event()
        with pytest.raises(Cancelled):
            run_study(
                STUDY,
                model,
                Parameters(length=6, samples=3, seed=seed),
                library=own,
                owner=ME,
                cancel=cancel,
                progress=lambda step, done, runs, left, cancel=cancel: cancel.set() if done == 1 else None,
            )
    app = open_page("studies")
    assert sum("1 of 3 runs are done." in text for text in texts(app).plain) == 2
    press(app, "Discard")
    (left,) = unfinished(own, ME)
    press(app, "Carry on")
    (job,) = process_jobs().jobs()
    job = process_jobs().wait(job.id, 60)
    assert job.analysis_id == left.begun.id and unfinished(own, ME) == []
    app.run()
    assert not any("runs are done" in text for text in texts(app).plain)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"state": "running", "layer": 4, "n_layers": 10, "seconds_left": 3.0}, "run 4 of 10, about 3.0 s left"),
        ({"state": "cancelled"}, "Stopped on request. What was done before is kept"),
        ({"state": "interrupted", "error": "x"}, "The server was stopped. What was done before is kept"),
    ],
)
def test_a_card_says_how_a_study_stands(facts, words):
    assert words in sentence(Job(id="x", title="t", type="study", **facts))


def test_the_heat_chart_leaves_out_what_has_no_value():
    chart = layer_head_heat([3, 7], np.array([[0.5, np.nan], [0.1, 0.2]]), title="Induction", selected=(7, 1)).to_dict()
    cells = chart["layer"][0]["data"]["values"]
    assert cells == [
        {"layer": 3, "head": 0, "value": 0.5},
        {"layer": 7, "head": 0, "value": 0.1},
        {"layer": 7, "head": 1, "value": 0.2},
    ]
    assert chart["title"]["text"] == "Induction; 1 undefined (blank)"
    assert chart["layer"][1]["data"]["values"] == [{"layer": 7, "head": 1}]
    assert layer_head_heat([0], np.full((1, 2), np.nan), title="x").to_dict()["layer"][0]["data"]["values"] == []

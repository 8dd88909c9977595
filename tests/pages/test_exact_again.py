"""An analysis whose exact maps were not kept is read again with those of one layer, and the page shows it."""

import json
from types import SimpleNamespace

import pytest

from backend.jobs import process_jobs
from backend.models import LoadedModel
from backend.options import Options
from backend.pipeline import analyse
from backend.prompts import Prompt
from backend.store import Library
from pages.shared.address import STATE
from pages.shared.panels import exact_again
from tests.backend.tiny import build

ME = "d" * 32
TOKENS = [1, 7, 9, 23, 9, 41, 7, 9, 23, 55]


@pytest.fixture
def pooled(library, monkeypatch):
    """An analysis of a tiny model without exact maps, in the app of one browser that may load this model."""
    model = LoadedModel.wrap(build("llama"), name="tiny-llama")
    for module in ("panels.exact_again", "panels.run_cards", "opened"):
        monkeypatch.setattr(f"pages.shared.{module}.owner", lambda: ME)
    monkeypatch.setattr("pages.shared.panels.exact_again.load", lambda name, revision=None: model)
    monkeypatch.setenv("HEADWATER_ANY_MODEL", "1")
    return analyse(model, TOKENS, options=Options(exact_maps="none"), library=Library(library.folder))


def offer(app):
    return [button for button in app.button if button.label.startswith("Read the prompt again")]


def test_one_layer_is_kept_exactly_by_reading_again(open_page, pooled, library):
    app = open_page("heads", analysis=pooled.id, layer="1", head="2")
    assert not app.exception
    (button,) = offer(app)
    button.click()
    app.run()
    job = process_jobs().jobs(ME)[0]
    assert process_jobs().wait(job.id, 60).state == "done"
    if app.session_state[STATE].analysis == pooled.id:  # else the run was done before its page was drawn
        app.run()
    state = app.session_state[STATE]
    assert (state.analysis, state.layer, state.head) == (process_jobs().get(job.id).analysis_id, 1, 2)
    again = Library(library.folder).open(state.analysis)
    assert again.exact_heads(1) == tuple(range(8)) and again.exact_heads(0) == ()
    assert not offer(app) and not app.exception


def test_a_server_that_only_shows_makes_no_offer(open_page, pooled, monkeypatch):
    monkeypatch.setenv("HEADWATER_READ_ONLY", "1")
    app = open_page("heads", analysis=pooled.id)
    assert not app.exception and not offer(app)
    assert any("were not kept exactly" in text.value for text in app.text)


PICTURE = {"image": "/etc/passwd"}


@pytest.mark.parametrize(
    "prompt",
    [
        PICTURE,
        {"audio": {"name": "a.wav", "seconds": 1.0}},
        {"text": "a", **PICTURE},
        {"text": ["a"]},
        {"pair": ["a", {}]},
        {"token_ids": ["/etc/passwd"]},
        {"token_ids": [1], "text": "a"},
        {"__class__": "x"},
        {},
        None,
        "text",
    ],
)
def test_only_texts_and_token_ids_are_read_again(prompt):
    """A file that somebody imported cannot have another one of this server opened."""
    assert exact_again.prompt_of({"prompt": prompt}) is None


@pytest.mark.parametrize(
    "prompt",
    [
        Prompt(text="a"),
        Prompt(chat=[{"role": "user", "content": "a"}]),
        Prompt(documents=["a", "b"], question="c"),
        Prompt(examples=[("a", "b")], question="c"),
        Prompt(pair=("a", "b")),
        Prompt(text="a", target="b", parse_special=True),
    ],
)
def test_every_form_of_text_is_read_again_as_it_was(prompt):
    stored = json.loads(json.dumps({name: value for name, value in vars(prompt).items() if value is not None}))
    assert exact_again.prompt_of({"prompt": stored}) == prompt


def test_a_picture_gets_no_offer(open_page, pooled, monkeypatch):
    monkeypatch.setattr(exact_again, "prompt_of", lambda info: None)
    app = open_page("heads", analysis=pooled.id)
    assert not app.exception and not offer(app)


def test_the_run_is_the_same_but_for_the_exact_maps(pooled, monkeypatch):
    """Text that the model wrote is written again, by the same version of the model."""
    asked = []
    stored = Options(new_tokens=3, pooled=32, exact_maps="none", disk_budget_mb=9, impl="reference").as_dict()
    info = {**pooled.info, "options": {**stored, "of_a_later_version": 1}, "revision": "abc"}
    beside = SimpleNamespace(id=pooled.id, info=info)
    monkeypatch.setattr(exact_again, "map_sizes", lambda one: {"self": {1: SimpleNamespace(heads=2)}})
    monkeypatch.setattr(exact_again, "load", lambda name, revision: asked.append((name, revision)))
    monkeypatch.setattr(exact_again, "analyse", lambda *given, **more: asked.append(more["options"]) or pooled)
    monkeypatch.setattr("streamlit.session_state", {})
    exact_again._start(SimpleNamespace(kind="self", layer=1), beside, "again")
    process_jobs().wait(process_jobs().jobs(ME)[0].id, 60)
    assert asked[0] == ("tiny-llama", "abc")
    limit = asked[1].max_tokens
    assert asked[1] == Options(new_tokens=3, pooled=32, exact_maps=[(1, 0), (1, 1)], max_tokens=limit)

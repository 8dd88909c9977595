"""An analysis whose exact maps were not kept is read again with those of one layer, and the page shows it."""

import pytest

from backend.jobs import process_jobs
from backend.models import LoadedModel
from backend.options import Options
from backend.pipeline import analyse
from backend.store import Library
from pages.shared.address import STATE
from tests.backend.tiny import build

ME = "d" * 32
TOKENS = [1, 7, 9, 23, 9, 41, 7, 9, 23, 55]


@pytest.fixture
def pooled(library, monkeypatch):
    """An analysis of a tiny model without exact maps, in the app of one browser that may load this model."""
    model = LoadedModel.wrap(build("llama"), name="tiny-llama")
    for module in ("panels.exact_again", "panels.run_cards", "opened"):
        monkeypatch.setattr(f"pages.shared.{module}.owner", lambda: ME)
    monkeypatch.setattr("pages.shared.panels.exact_again.load", lambda name: model)
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

"""The whole app on a data folder of its own, with small stored analyses instead of the bundled ones."""

from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from tests.conftest import ROOT
from tests.stored import HOSTILE, store

APP = str(ROOT / "app.py")  # absolute: a relative path is taken from the file that calls


@pytest.fixture(autouse=True)
def charts_are_checked(monkeypatch):
    """Every chart that a page draws here is checked against Vega-Lite's schema."""
    monkeypatch.setattr("pages.shared.charts.spec.CHECKED", True)


@pytest.fixture(scope="session")
def bundled_analyses(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundled")
    store(folder, id="bundled-first", title="A first bundled one", n_tokens=20)
    store(folder, id="bundled-second", title="B second bundled one", n_tokens=16)
    return folder


@pytest.fixture
def library(data_folder, bundled_analyses, monkeypatch):
    """Own analyses: `plain` with a hostile title, `private` of somebody else, `hybrid` with layers 3 and 7."""
    monkeypatch.setattr("backend.shelf.bundled_folder", lambda: bundled_analyses)
    monkeypatch.setenv("HEADWATER_ANY_MODEL", "1")  # as on a server that listens on this machine alone
    return SimpleNamespace(
        folder=data_folder,
        plain=store(data_folder, text=HOSTILE, n_tokens=40),
        private=store(data_folder, visibility="private", owner="a" * 32, title="secret"),
        hybrid=store(data_folder, layers=(3, 7), title="hybrid"),
    )


@pytest.fixture
def open_page():
    """Opens a page of the app from an address, as a browser does."""

    def run(page: str | None = None, timeout: float = 60, **query: str) -> AppTest:
        app = AppTest.from_file(APP, default_timeout=timeout)
        if page is not None:
            app.switch_page(f"pages/{page}.py")
        app.query_params.update(query)
        return app.run()

    return run


@pytest.fixture
def texts():
    """Everything a run wrote as plain text, and everything it wrote as markdown or HTML."""

    def read(app: AppTest) -> SimpleNamespace:
        plain = [element.value for element in app.text]
        marked = [element.value for element in (*app.markdown, *app.caption, *app.html, *app.title, *app.error)]
        marked += [element.label for element in (*app.button, *app.expander)]
        return SimpleNamespace(plain=plain, marked=marked)

    return read

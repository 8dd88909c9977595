"""Who is signed in is known to the routes under /data through a function of Streamlit that is not public."""

import inspect
import json
import logging
import runpy
import sys
from types import ModuleType

import pytest

from tests.conftest import ROOT

PLACE = "streamlit.web.server.starlette.starlette_websocket"


@pytest.fixture
def app(monkeypatch):
    """The functions of app.py, without a server and without a page."""
    monkeypatch.setattr("pages.shared.home.home", lambda: None)  # first: pages import the real one of the next line
    monkeypatch.setattr("streamlit.runtime.scriptrunner.get_script_run_ctx", lambda **_: object())
    return runpy.run_path(str(ROOT / "app.py"))


def test_the_function_is_in_the_installed_streamlit(app, caplog):
    assert list(inspect.signature(app["signed_cookies"]()).parameters)[1:]
    assert app["signed_in"]({"_streamlit_user": "unsigned"}) is None and not caplog.records


def test_where_it_has_gone_the_log_says_so_once(app, caplog, monkeypatch):
    caplog.set_level(logging.WARNING, "headwater")
    monkeypatch.setitem(sys.modules, PLACE, ModuleType(PLACE))
    assert app["signed_in"]({}) is None and not caplog.records
    for _ in range(2):
        assert app["signed_in"]({"_streamlit_user": "x"}) is None
    (record,) = caplog.records
    assert "does not tell who is signed in" in record.getMessage()


def test_what_the_cookie_says_is_passed_on(app, monkeypatch):
    other = ModuleType(PLACE)
    other._get_signed_cookie_with_chunks = lambda cookies, name: json.dumps({"sub": cookies[name]}).encode()
    monkeypatch.setitem(sys.modules, PLACE, other)
    assert app["signed_in"]({"_streamlit_user": "me"}) == {"sub": "me"}

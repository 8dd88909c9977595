"""docs/security.md: every threat has a test, and those that stand nowhere else are here."""

from __future__ import annotations

import json
import logging
import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest

from backend.errors import HeadwaterError, Refused
from backend.models import sources
from backend.routes import routes
from backend.shelf import OWNER_COOKIE, Shelf
from backend.store import Library
from pages.shared.charts.query_chart import MARKS, query_chart
from pages.shared.menu import menu
from tests.conftest import ROOT
from tests.stored import store

EVIL = "<img src=x onerror=alert(1)> **b** :red[c] $d$ `e` </script><script>alert(2)</script>"
LINES = [line for line in (ROOT / "docs" / "security.md").read_text("utf-8").splitlines() if line.count("|") == 4]
NAMED = [match[1] for line in LINES if (match := re.search(r"`(tests/[^`]+)`", line))]


@pytest.mark.parametrize("named", NAMED)
def test_every_threat_has_its_test(named):
    path, _, name = named.partition("::")
    assert (ROOT / path).is_file() and (not name or f"def {name}(" in (ROOT / path).read_text("utf-8")), named


def test_no_threat_is_without_one():
    threats = [line for line in LINES if not line.startswith(("| threat", "|---", "| who"))]
    assert len(threats) == len(NAMED) > 25


@pytest.fixture
def hostile(data_folder, monkeypatch):
    """An analysis whose every text wants to be code, in a library of its own."""
    monkeypatch.setenv("HEADWATER_ANY_MODEL", "1")
    id = store(data_folder, text=EVIL + " " * 10, n_tokens=20, title=EVIL, tags=(EVIL, "=1+1"))
    library = Library(data_folder)
    library.update(id, notes=EVIL, heads={"0.1": {"label": EVIL, "note": EVIL}})
    return id


@pytest.mark.parametrize("page", [None, *(name for name, _ in menu())])
def test_hostile_names_are_text_on_every_page(hostile, page):
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    if page is not None:
        app.switch_page(f"pages/{page}.py")
    app.query_params.update({"analysis": hostile})
    app.run()
    assert not app.exception
    marked = [
        element.value for element in (*app.markdown, *app.caption, *app.html, *app.title, *app.error, *app.subheader)
    ]
    marked += [element.label for element in (*app.button, *app.expander)]
    assert not any("onerror" in str(text) or ":red[c]" in str(text) for text in marked), page


@pytest.mark.parametrize("mark", MARKS)
def test_a_chart_of_hostile_names_has_fields_of_its_own(mark):
    spec = json.loads(query_chart([EVIL, "b"], [1.0, 2.0], x=EVIL, y="a.b[0]", mark=mark, numbers=False).to_json())
    assert {value["field"] for value in spec["encoding"].values() if isinstance(value, dict)} <= {"across", "up"}
    assert spec["encoding"]["x"]["title"] == EVIL  # drawn as text


@pytest.mark.parametrize("name", ["../../evil.duckdb", "/etc/evil.duckdb", f"{EVIL}.duckdb", "evil\n.duckdb"])
@pytest.mark.parametrize("good", [True, False])
def test_the_name_of_an_upload_is_never_used(data_folder, tmp_path, monkeypatch, name, good):
    """A file is uploaded under a name that wants to be a place or code: nothing on the disk or the page has it."""
    id = store(tmp_path / "theirs", title="a plain title", text="plain words and some more")
    content = Library(tmp_path / "theirs").export(id, tmp_path / "copy.duckdb").read_bytes()
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run()
    uploader = next(one for one in app.file_uploader if one.label.startswith("A .duckdb file"))
    uploader.set_value((name, content if good else b"no database", "application/octet-stream")).run()
    assert not app.exception
    said = [element.value for element in app.text]
    assert any(text.startswith("Imported: plain words") if good else "no DuckDB file" in text for text in said)
    assert len(Library(data_folder).list()) == good
    shown = [*said, *(element.value for element in (*app.markdown, *app.caption, *app.html))]
    assert not any("evil" in str(text) or "onerror" in str(text) for text in shown)
    written = [path.name for folder in (data_folder, tmp_path, places) for path in folder.rglob("*")]
    assert not any("evil" in one or "onerror" in one for one in written)
    assert list(places.iterdir()) == [] and not list(data_folder.parent.glob("evil*"))


@pytest.mark.parametrize(
    "name",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://internal/model",
        "file:///etc/passwd",
        "//host/share",
        "../../etc",
        "owner/name/../../..",
        "a" * 300,
        "\x00",
        EVIL,
    ],
)
def test_an_address_is_no_model(name, monkeypatch):
    """Nothing is asked of anybody: the name is refused first."""
    monkeypatch.setattr(sources, "snapshot_download", lambda *a, **k: pytest.fail("a request left the house"))
    try:
        sources.locate(name, None, None)
    except HeadwaterError as error:
        assert "Traceback" not in str(error)
        return
    except BaseException as error:
        if "left the house" in str(error) and re.fullmatch(r"[\w.-]+/[\w.-]+", name) is None:
            from huggingface_hub.utils import HFValidationError, validate_repo_id

            with pytest.raises(HFValidationError):  # the hub's own client refuses it before it asks
                validate_repo_id(name)
            return
        raise
    pytest.fail("it was found")


def test_a_model_named_by_a_file_is_checked_like_a_typed_one(monkeypatch):
    from backend.studies.random_repeat import STUDY, Parameters
    from pages.shared.panels.model_choice import ModelChoice
    from pages.shared.panels.study_plan import start

    monkeypatch.setenv("HEADWATER_ANY_MODEL", "0")
    with pytest.raises(Refused, match="runs packaged models only"):
        start(ModelChoice("/etc", "/etc", packaged=False), STUDY, Parameters())


def test_no_cookie_and_no_token_is_logged(data_folder, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    secret = "s" * 32
    shelf = Shelf(data_folder)
    id = store(data_folder, visibility="private", owner=secret)
    (shelf.own.folder(id) / "analysis.duckdb").write_bytes(b"damaged")
    client = TestClient(Starlette(routes=routes(shelf.open)), raise_server_exceptions=False)
    for path in (f"/data/{id}/rows.csv", f"/data/{id}/map/self/0/0", "/data/nothing"):
        client.get(path, headers={"cookie": f"{OWNER_COOKIE}={secret}", "authorization": "Bearer hf_secret"})
    for path in (shelf.own.folder(id)).glob("*.json"):
        path.write_text("{damaged")
    Library(data_folder).list()
    assert caplog.records and secret not in caplog.text and "hf_secret" not in caplog.text

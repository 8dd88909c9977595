"""Somebody who signed in: pages and data routes know the person by Streamlit's signed cookie, and by no other word.

The way to the cookie, OpenID Connect itself, is Streamlit's and Authlib's and is not walked here.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from backend.shelf import OWNER_COOKIE, person
from tests.stored import store
from tools.app_server import serve

pytestmark = pytest.mark.browser

SECRET, COOKIE = "only-for-this-test-0123456789", "_streamlit_user"
ADA = {"is_logged_in": True, "iss": "https://accounts.example.org", "sub": "1234", "email": "ada@example.org"}
SECRETS = f"""[auth]
redirect_uri = "http://127.0.0.1/oauth2callback"
cookie_secret = "{SECRET}"
client_id = "headwater"
client_secret = "none"
server_metadata_url = "http://127.0.0.1:9/.well-known/openid-configuration"
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    private = store(data, title="of Ada alone", visibility="private", owner=person(None, ADA))
    secrets = data / "secrets.toml"
    secrets.write_text(SECRETS)
    with serve(data, options=("--secrets.files", str(secrets))) as url:
        yield SimpleNamespace(url=url, private=private)


def signed(url: str, facts: dict, secret: str = SECRET) -> str:
    """The cookie that Streamlit sets once somebody has signed in."""
    return create_signed_value(secret, COOKIE, json.dumps({**facts, "origin": url})).decode()


def status(served, **cookies: str) -> int:
    text = "; ".join(f"{name}={value}" for name, value in cookies.items())
    request = urllib.request.Request(f"{served.url}/data/{served.private}/tokens.json", headers={"Cookie": text})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_data_route_knows_the_signed_in_person_and_takes_no_other_word_for_it(served):
    right = signed(served.url, ADA)
    assert status(served, **{COOKIE: right}) == 200
    assert status(served) == 404
    assert status(served, **{COOKIE: signed(served.url, ADA, "another-secret-0123456789")}) == 404
    assert status(served, **{COOKIE: right[:-3] + "AAA"}) == 404
    assert status(served, **{COOKIE: json.dumps(ADA)}) == 404
    assert status(served, **{COOKIE: signed(served.url, {**ADA, "sub": "5"})}) == 404
    assert status(served, **{COOKIE: signed(served.url, {**ADA, "is_logged_in": False})}) == 404
    assert status(served, **{OWNER_COOKIE: person(None, ADA)}) == 404


@pytest.mark.parametrize(
    ("secret", "said"), [(SECRET, "Signed in as ada@example.org."), ("wrong" * 5, "Not signed in")]
)
def test_a_page_knows_the_signed_in_person(page, served, secret, said):
    page.context.add_cookies([{"name": COOKIE, "value": signed(served.url, ADA, secret), "url": served.url}])
    page.goto(served.url)
    page.get_by_text(said).wait_for(timeout=60_000)
    page.get_by_text("Storage used").wait_for(timeout=60_000)
    assert (page.get_by_text("of Ada alone").count() > 0) == (secret == SECRET)

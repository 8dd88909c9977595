"""Every browser gets a random name of its own, once, and scripts cannot read it."""

from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from backend.routes.owner import OwnerCookie, owner_of
from backend.shelf import BROWSER, OWNER_COOKIE, person

PAGES = [Route("/", lambda _: HTMLResponse("<p>page</p>")), Route("/data", lambda _: JSONResponse({}))]


def client(scheme="http"):
    return TestClient(OwnerCookie(Starlette(routes=PAGES)), base_url=f"{scheme}://testserver")


def test_a_page_brings_the_cookie_and_data_does_not():
    browser = client()
    assert "set-cookie" not in browser.get("/data").headers
    cookie = browser.get("/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie
    assert BROWSER.fullmatch(browser.cookies[OWNER_COOKIE])
    assert "set-cookie" not in browser.get("/").headers


def test_two_browsers_have_two_names():
    names = set()
    for _ in range(20):
        browser = client()
        browser.get("/")
        names.add(browser.cookies[OWNER_COOKIE])
    assert len(names) == 20


def test_over_https_the_cookie_stays_there():
    assert "Secure" in client("https").get("/").headers["set-cookie"]


def test_a_made_up_short_name_is_replaced():
    browser = client()
    assert "set-cookie" in browser.get("/", headers={"cookie": f"{OWNER_COOKIE}=me"}).headers


def test_a_signed_in_person_is_the_same_in_every_browser_and_no_cookie_can_say_so():
    facts = {"is_logged_in": True, "iss": "https://issuer", "sub": "7"}
    name = person("b" * 32, facts)
    assert name.startswith("oidc:") and "issuer" not in name and name == person(None, dict(facts))
    assert name != person(None, facts | {"sub": "8"}) != person(None, facts | {"iss": "https://other"})
    assert person("b" * 32, facts | {"is_logged_in": False}) == person("b" * 32, {}) == person("b" * 32) == "b" * 32
    assert person(name) is None and person("short") is None and person(None) is None

    def signed_in(cookies):
        return facts if cookies.get("_signed") == "right" else None

    app = Starlette(routes=[Route("/who", lambda request: JSONResponse({"who": owner_of(request)}))])
    browser = TestClient(OwnerCookie(app, signed_in))
    for cookie, who in (
        ("_signed=right", name),
        (f"_signed=right; {OWNER_COOKIE}={'b' * 32}", name),
        (f"_signed=wrong; {OWNER_COOKIE}={'b' * 32}", "b" * 32),
        (f"{OWNER_COOKIE}={name}", None),
        ("", None),
    ):
        assert browser.get("/who", headers={"cookie": cookie}).json() == {"who": who}

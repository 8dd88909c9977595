"""Every browser gets a random name of its own, once, and scripts cannot read it."""

from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from backend.routes.owner import NAME, OwnerCookie
from backend.shelf import OWNER_COOKIE

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
    assert NAME.fullmatch(browser.cookies[OWNER_COOKIE])
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

"""The frame in a real Chromium, behind a path prefix: links, back and forward, themes, private analyses."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from backend.shelf import OWNER_COOKIE
from tests.stored import HOSTILE, store
from tools.app_server import serve

pytestmark = pytest.mark.browser

PREFIX = "tools/attention"
HEAD = ".st-key-headwater_choose_head"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    store(folder, id="short-one", text=HOSTILE, n_tokens=40)
    return folder


@pytest.fixture(scope="module")
def address(data):
    with serve(data, prefix=PREFIX) as url:
        yield url


def open_heads(page, address: str, query: str) -> None:
    page.goto(f"{address}/heads?{query}")
    page.wait_for_selector(f"{HEAD} input", timeout=60_000)


def wait_for_head(page, head: int) -> None:
    """Until the selector and the address both say so."""
    page.wait_for_function(
        """([selector, head]) => document.querySelector(selector)?.value === head
            && (new URLSearchParams(location.search).get("head") ?? "0") === head""",
        arg=[f"{HEAD} input", str(head)],
        timeout=30_000,
    )


def test_case_76_the_copied_link_has_the_outside_address_and_prefix(page, address):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_heads(page, address, "analysis=short-one&layer=1&head=3&rows=4:20")
    wait_for_head(page, 3)
    page.get_by_role("button", name="Copy the link to this view").click()
    page.get_by_role("button", name="Copy the link to this view").filter(has_text="Copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{address}/heads?")
    query = {name: value[0] for name, value in parse_qs(urlsplit(link).query).items()}
    assert query == {"analysis": "short-one", "layer": "1", "head": "3", "rows": "4:20"}


def test_cases_72_and_73_quick_clicks_back_forward_reload_and_the_menu_keep_the_view(page, address):
    open_heads(page, address, "analysis=short-one")
    more = page.locator(f"{HEAD} button").last
    for _ in range(3):
        more.click()
    wait_for_head(page, 3)
    page.wait_for_timeout(1500)
    wait_for_head(page, 3)  # a late run has not undone the last click
    page.go_back()
    page.wait_for_function("!location.search.includes('head=3')")
    page.go_forward()
    wait_for_head(page, 3)
    page.reload()
    wait_for_head(page, 3)
    page.get_by_role("link", name="Glossary").click()
    page.get_by_text("What does each number mean?").wait_for()
    page.get_by_role("link", name="Heads", exact=True).click()
    wait_for_head(page, 3)


def test_a_theme_in_the_address_is_shown(page, address):
    for theme, colour in (("projector", "rgb(255, 255, 255)"), ("dark", "rgb(17, 22, 29)")):
        open_heads(page, address, f"analysis=short-one&theme={theme}")
        page.wait_for_function(
            "colour => getComputedStyle(document.querySelector('.stApp')).backgroundColor === colour",
            arg=colour,
            timeout=30_000,
        )


def test_every_browser_has_a_name_and_private_analyses_an_owner(page, chromium, address, data):
    page.goto(f"{address}/glossary")
    page.get_by_text("What does each number mean?").wait_for()
    name = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == OWNER_COOKIE)
    assert page.evaluate("document.cookie").find(OWNER_COOKIE) == -1
    private = store(data, title="mine alone", visibility="private", owner=name)
    open_heads(page, address, f"analysis={private}")
    page.get_by_text("mine alone").first.wait_for()
    assert page.request.get(f"{address}/data/{private}/map/self/0/0").status == 200
    stranger = chromium.new_context()
    other = stranger.new_page()
    open_heads(other, address, f"analysis={private}")
    other.get_by_text("It may have been deleted").wait_for()
    assert other.get_by_text("mine alone").count() == 0
    assert other.request.get(f"{address}/data/{private}/map/self/0/0").status == 404
    stranger.close()


def test_nothing_is_asked_of_another_host(page, address):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.get_by_text("Recent and pinned analyses").wait_for()
    page.get_by_text(HOSTILE).first.wait_for()
    page.wait_for_timeout(1000)
    assert len(asked) > 5
    assert [url for url in asked if not url.startswith((address.removesuffix(PREFIX), "data:", "blob:"))] == []


def test_keys_of_the_page_and_their_list(page, address):
    open_heads(page, address, "analysis=short-one&layer=1&head=3")
    wait_for_head(page, 3)
    page.wait_for_selector(".hw-viewer[data-state=ready]")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    listed = dialog.locator("td:first-child").all_text_contents()
    assert {"/", "s", "l", "t", "d", "c", "p", "?"} <= set(listed)
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    page.get_by_role("button", name="All keys").click()
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="hidden")
    page.keyboard.press("ArrowLeft")
    wait_for_head(page, 2)
    page.keyboard.press("l")
    page.wait_for_function("location.search.includes('scale=log')")
    page.keyboard.press("p")
    page.wait_for_function("location.search.includes('theme=projector')")
    wait_for_head(page, 2)
    page.wait_for_selector(".hw-viewer[data-state=ready]")
    page.keyboard.press("p")
    page.wait_for_function("!location.search.includes('theme=')")


def test_letters_that_are_typed_are_no_commands(page, address):
    open_heads(page, address, "analysis=short-one&layer=1&head=3")
    wait_for_head(page, 3)
    page.locator(f"{HEAD} input").focus()
    page.keyboard.type("?")
    assert page.get_by_role("dialog", name="Keys").count() == 0

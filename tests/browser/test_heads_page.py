"""The page of heads in a real Chromium: choosing heads, zooming, and the link that brings all of it back."""

from __future__ import annotations

import re
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from backend.store import Library
from tests.stored import HOSTILE, store
from tools.app_server import serve

pytestmark = pytest.mark.browser

READY = ".hw-viewer[data-state=ready]"
LEFT, TOP, SIDES = 92, 76, 102  # margins of the map, as in axes.js


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Two analyses: a short one with hostile text, a long one whose heads 2 and 3 have pooled maps only."""
    folder = tmp_path_factory.mktemp("data")
    store(folder, id="short-one", text=HOSTILE, n_tokens=40, layers=(0, 1, 2))
    store(folder, id="long-one", text="word " * 400, n_tokens=600, exact=(0, 1))
    store(folder, id="unlike", heads=(4, 2))
    return Library(folder)


@pytest.fixture(scope="module")
def address(library):
    with serve(library.path) as url:
        yield url


def open_heads(page, address: str, query: str) -> None:
    page.goto(f"{address}/heads?{query}")
    page.wait_for_selector(READY, timeout=60_000)
    page.wait_for_selector(".hg-strip")
    settle(page)


def settle(page) -> None:
    page.wait_for_timeout(900)
    page.wait_for_selector(READY)


def query_of(page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def becomes(page, read, expected, seconds: float = 15):
    """What `read` gives, as soon as it is what is expected, or else after that many seconds."""
    end = time.monotonic() + seconds
    while (found := read()) != expected and time.monotonic() < end:
        page.wait_for_timeout(100)  # not time.sleep: the page's events arrive only while Playwright waits
    return found


def in_map(page, across: float, down: float) -> tuple[float, float]:
    """A place of the map, as shares of its sides, on the page."""
    box = page.locator(".hw-over").bounding_box()
    side = box["width"] - SIDES
    return box["x"] + LEFT + across * side, box["y"] + TOP + down * side


def readout(page) -> str:
    """The readout once what it waits for has come and it has stopped changing."""
    text = None
    for _ in range(60):
        page.wait_for_timeout(200)
        before, text = text, page.locator(".hw-readout").text_content()
        if text == before and "loading" not in text:
            break
    return text


def click_head(page, row: int, head: int) -> None:
    strip = page.locator(".hg-strip").nth(row).bounding_box()
    step = (strip["width"] + 2) / 4
    page.mouse.click(strip["x"] + (head + 0.5) * step, strip["y"] + strip["height"] / 2)
    page.mouse.move(640, 90)
    settle(page)


def test_a_click_and_the_arrows_choose_a_head(page, address):
    open_heads(page, address, "analysis=short-one")
    click_head(page, 1, 2)
    chosen = {"analysis": "short-one", "layer": "1", "head": "2"}
    assert becomes(page, lambda: query_of(page), chosen) == chosen
    page.locator(".hw-over[aria-label^='Attention map of 1.2']").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    settle(page)
    chosen = {"analysis": "short-one", "layer": "2", "head": "3"}
    assert becomes(page, lambda: query_of(page), chosen) == chosen
    assert page.get_by_label("Layer (0 to 2)").input_value() == "2"


def test_small_maps_come_with_one_request_per_layer_and_nothing_leaves_the_host(page, address):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_heads(page, address, "analysis=short-one")
    page.wait_for_timeout(1000)
    pictures = [url for url in asked if "/grid/" in url]
    assert len(pictures) == 3 and len(set(pictures)) == 3
    loaded = page.locator(".hg-picture").evaluate_all("all => all.map(one => one.complete && one.naturalWidth > 0)")
    assert loaded == [True] * 3
    page.get_by_text("Measure", exact=True).last.click()
    settle(page)
    assert becomes(page, lambda: query_of(page).get("grid"), "values") == "values"
    assert page.locator(".hg-strip canvas").count() == 3
    assert {urlsplit(url).hostname for url in asked if url.startswith("http")} == {"127.0.0.1"}


def test_the_exact_weight_under_the_pointer_is_that_of_the_analysis(page, address, library):
    open_heads(page, address, "analysis=long-one&layer=1&head=1&rows=300:320&columns=100:120")
    page.mouse.move(*in_map(page, 7.5 / 20, 12.5 / 20))
    page.locator(".hw-readout", has_text="rank").wait_for()
    told = re.search(r"query 312 .* key 107 .* weight (\S+) · rank (\d+) of 313", readout(page))
    assert told, readout(page)
    row = library.open("long-one").map(1, 1, slice(312, 313))[0]
    assert float(told[1]) == pytest.approx(float(row[107]), rel=6e-4)
    assert int(told[2]) == 1 + int((row[:313] > row[107]).sum())


def test_a_link_brings_window_cell_and_look_back_in_another_browser(page, chromium, address):
    open_heads(page, address, "analysis=long-one&head=1")
    place = in_map(page, 0.3, 0.7)
    page.mouse.move(*place)
    for _ in range(4):
        page.mouse.wheel(0, -500)
    settle(page)
    page.mouse.click(*place)
    page.get_by_role("button", name="Log", exact=True).click()
    page.get_by_role("button", name="to token").click()
    settle(page)
    named = {"analysis", "head", "rows", "columns", "query", "key", "scale", "direction"}
    assert becomes(page, lambda: set(query_of(page)), named) == named
    query = query_of(page)
    assert query["scale"] == "log" and query["direction"] == "to"
    page.mouse.move(640, 90)
    page.wait_for_timeout(600)
    context = chromium.new_context(viewport={"width": 1280, "height": 720})
    other = context.new_page()
    open_heads(other, address, urlsplit(page.url).query)
    assert readout(other) == readout(page)
    assert f"query {query['query']} " in readout(other)
    assert query_of(other) == query, "opening a link does not change it"
    context.close()


def test_switching_heads_keeps_the_window(page, address):
    open_heads(page, address, "analysis=long-one&rows=100:200&columns=50:150")
    click_head(page, 1, 1)
    chosen = {"analysis": "long-one", "layer": "1", "head": "1", "rows": "100:200", "columns": "50:150"}
    assert becomes(page, lambda: query_of(page), chosen) == chosen
    page.mouse.move(*in_map(page, 0.505, 0.505))
    page.wait_for_timeout(500)
    assert "query 150 " in readout(page) and "key 100 " in readout(page)


def test_a_head_without_exact_map_says_so_and_is_told_by_blocks(page, address):
    open_heads(page, address, "analysis=long-one&head=2")
    assert "Only the pooled map of this head was kept" in page.locator(".hw-note").text_content()
    page.mouse.move(*in_map(page, 0.2, 0.8))
    page.wait_for_timeout(400)
    assert re.search(r"queries \d+–\d+ → keys \d+–\d+ · mean weight", readout(page)), readout(page)


def test_the_ranked_list_chooses_a_head(page, address):
    open_heads(page, address, "analysis=short-one&head=1&measure=entropy")
    chart = page.locator("[data-testid=stVegaLiteChart]").first
    chart.scroll_into_view_if_needed()
    chart.locator("canvas, svg").first.wait_for()
    page.wait_for_timeout(500)
    box = chart.bounding_box()
    before = query_of(page)
    page.mouse.click(box["x"] + 70, box["y"] + 14)  # the first bar
    title = "Heads by entropy; this head is 1 of 12"
    assert becomes(page, lambda: page.get_by_text("Heads by entropy").text_content(), title) == title
    assert query_of(page) != before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_map_follows_the_theme(chromium, address, scheme):
    context = chromium.new_context(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
    page = context.new_page()
    open_heads(page, address, "analysis=short-one")
    background = page.locator(".hw-viewer").evaluate(
        "one => getComputedStyle(one).getPropertyValue('--st-background-color')"
    )
    light = sum(int(background.strip()[at : at + 2], 16) for at in (1, 3, 5)) > 382
    assert light == (scheme == "light")
    corner = page.locator(".hw-canvas").first.evaluate(
        "one => [...one.getContext('2d').getImageData(4, 60, 1, 1).data]"
    )
    assert corner[3] == 0, "around the map the page shows through"
    box = page.locator(".hw-over").bounding_box()
    assert box["y"] + box["height"] <= 720, "the whole map is above the fold"
    context.close()


def test_case_77_hostile_text_shows_literally_everywhere(page, address):
    page.on("dialog", lambda dialog: pytest.fail("text of the prompt was run as a script"))
    open_heads(page, address, "analysis=short-one&query=39")
    assert "".join(page.locator(".hw-token").all_text_contents()).replace("·", " ") == HOSTILE
    assert page.locator("img[src=x]").count() == 0


def test_heads_are_ordered_by_value_and_filtered_and_the_link_keeps_it(page, address, library):
    open_heads(page, address, "analysis=short-one&measure=entropy")
    page.get_by_role("button", name="By value").click()
    page.locator(".hg-single").first.wait_for()
    grid = library.open("short-one").statistic("entropy")
    order = [f"{at // 4}.{at % 4}" for at in (-grid.reshape(-1)).argsort(kind="stable")]
    names = "all => all.map(one => `${one.dataset.layer}.${one.dataset.head}`)"
    assert page.locator(".hg-single").evaluate_all(names) == order
    page.get_by_label("Only heads with at least this value").fill("90")
    assert becomes(page, lambda: {"order", "least"} <= set(query_of(page)), True)
    least = float(query_of(page)["least"])
    kept = [name for name in order if grid.reshape(-1)[int(name[0]) * 4 + int(name[2])] >= least]
    assert page.locator(".hg-single").evaluate_all(names) == kept and 0 < len(kept) < 12
    assert f"{len(kept)} of 12 heads have at least" in page.locator(".hg-found").text_content()
    page.reload()
    page.wait_for_selector(".hg-single")
    assert page.locator(".hg-single").evaluate_all(names) == kept
    page.get_by_role("button", name="By layer").click()
    assert page.locator(".hg-veil").count() == 12 - len(kept)


def test_pinned_heads_stand_beside_the_map_and_in_the_link(page, address):
    open_heads(page, address, "analysis=short-one")
    strip = page.locator(".hg-strip").nth(2).bounding_box()
    page.keyboard.down("Shift")
    page.mouse.click(strip["x"] + 3.5 * (strip["width"] + 2) / 4, strip["y"] + strip["height"] / 2)
    page.keyboard.up("Shift")
    assert becomes(page, lambda: query_of(page).get("pins"), "2.3") == "2.3"
    page.locator(".hw-pane").nth(1).wait_for()
    page.get_by_role("button", name="Pin", exact=True).click()  # the chosen head, which stands there already
    assert becomes(page, lambda: query_of(page).get("pins"), "2.3,0.0") == "2.3,0.0"
    assert page.locator(".hw-pane").count() == 2
    page.get_by_role("button", name="Choose head 2.3").click()
    assert becomes(page, lambda: query_of(page).get("head"), "3") == "3"
    page.get_by_role("button", name="Take head 0.0 away").click()
    assert becomes(page, lambda: query_of(page).get("pins"), "2.3") == "2.3"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_case_56_one_head_on_both_sides_and_a_difference(chromium, address, scheme):
    context = chromium.new_context(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
    page = context.new_page()
    open_heads(page, address, "analysis=short-one&layer=1&head=2&pins=1.2,0.1&minus=0.1")
    assert page.locator(".hw-title strong").all_text_contents() == ["1.2 minus 0.1", "0.1"]
    page.mouse.move(*in_pane(page, 0, 0.2, 0.8))
    assert "difference " in readout(page) and "(1.2) − " in readout(page)
    page.mouse.move(*in_pane(page, 1, 0.2, 0.8))
    assert readout(page).startswith("0.1 · query")
    context.close()


def in_pane(page, at: int, across: float, down: float) -> tuple[float, float]:
    box = page.locator(".hw-over").nth(at).bounding_box()
    side = box["width"] - SIDES
    return box["x"] + LEFT + across * side, box["y"] + TOP + down * side


def test_layers_with_unlike_numbers_of_heads(page, address, library):
    open_heads(page, address, "analysis=unlike&head=3")
    widths = page.locator(".hg-strip").evaluate_all("all => all.map(one => one.offsetWidth)")
    assert widths[0] > 1.9 * widths[1]
    page.locator(".hg-scroll").press("ArrowDown")
    assert becomes(page, lambda: (query_of(page).get("layer"), query_of(page).get("head")), ("1", "1")) == ("1", "1")
    page.get_by_role("button", name="By value").click()
    page.locator(".hg-single").nth(5).wait_for()
    assert page.locator(".hg-single").count() == 6


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_case_55_the_chosen_head_stays_chosen(chromium, address, scheme):
    context = chromium.new_context(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
    page = context.new_page()
    open_heads(page, address, "analysis=short-one&layer=1&head=3")
    marked = page.locator(".hg-strip").nth(1).locator(".hg-selected")
    assert marked.count() == 1, "the head of the link is marked the first time"
    click_head(page, 2, 1)
    assert becomes(page, lambda: query_of(page).get("head"), "1") == "1"
    page.get_by_role("link", name="Glossary").click()
    page.get_by_text("What does each number mean?").wait_for()
    page.get_by_role("link", name="Heads", exact=True).click()
    page.wait_for_selector(READY)
    assert page.locator(".hg-strip").nth(2).locator(".hg-selected").count() == 1
    context.close()


def test_the_map_switches_before_the_page_has_answered(page, address):
    open_heads(page, address, "analysis=short-one")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/map/self/2/3" in request.url else None)
    page.evaluate(
        "window.send = WebSocket.prototype.send; WebSocket.prototype.send = () => {}"
    )  # the page hears nothing
    click_head(page, 2, 3)
    page.wait_for_timeout(300)
    assert asked and page.locator(".hw-viewer").get_attribute("data-head") == "2.3"
    page.evaluate("WebSocket.prototype.send = window.send; 0")
    click_head(page, 1, 2)
    chosen = {"analysis": "short-one", "layer": "1", "head": "2"}
    assert becomes(page, lambda: query_of(page), chosen) == chosen
    page.wait_for_timeout(2500)
    assert page.locator(".hw-viewer").get_attribute("data-head") == "1.2", (
        "an answer to an older choice changes nothing"
    )

"""The map viewer alone, in a real Chromium, against made-up maps: what a cell says, how it looks, what it reports."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pages.shared.map_viewer import Look
from tests.browser.viewer_server import MadeMap, ViewerServer, causal_map, pooled

pytestmark = pytest.mark.browser

GEOMETRY = """() => { const viewer = document.querySelector('.hw-over').getBoundingClientRect();
  const style = getComputedStyle(document.querySelector('.hw-viewer'));
  return { x: viewer.x, y: viewer.y, side: viewer.width - 102 }; }"""
LEFT, TOP = 92, 76  # margins of the map, as in axes.js


class Shown:
    """A viewer on a page, with the map's geometry."""

    def __init__(self, page, server: ViewerServer, dark: bool = False, **changes) -> None:
        self.page, self.made, self.seen = page, server.made, {}
        page.goto(f"{server.url}/heads")
        page.wait_for_function("() => !!window.show")
        if dark:
            page.evaluate("document.documentElement.classList.add('dark')")
        self.message = self.made.view(**changes).message()
        self.show()

    def show(self, **changes) -> None:
        """What the page would send next."""
        self.message = {**self.message, **changes}
        self.page.evaluate("message => show(message)", self.message)
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_selector("[data-state=ready]")
        self.page.wait_for_timeout(250)
        self.page.wait_for_selector("[data-state=ready]")

    def point(self, row: float, key: float, window=None) -> tuple[float, float]:
        """Where a place of the map is on the page."""
        rows, columns = window or ((0, self.made.weights.shape[0]), (0, self.made.weights.shape[1]))
        geometry = self.page.evaluate(GEOMETRY)
        across = (key - columns[0]) / (columns[1] - columns[0])
        down = (row - rows[0]) / (rows[1] - rows[0])
        return geometry["x"] + LEFT + across * geometry["side"], geometry["y"] + TOP + down * geometry["side"]

    def hover(self, row: int, key: int, window=None) -> str:
        """What the readout says of a cell, once it has stopped changing."""
        self.page.mouse.move(*self.point(row + 0.5, key + 0.5, window))
        return self.steady()

    def steady(self) -> str:
        """The readout once what it waits for has come and it has stopped changing."""
        text = None
        for _ in range(50):
            self.page.wait_for_timeout(150)
            before, text = text, self.readout()
            if text == before and "loading" not in text:
                break
        return text

    def readout(self) -> str:
        return self.page.locator(".hw-readout").text_content()

    def pixel(self, row: float, key: float, window=None) -> tuple[int, ...]:
        x, y = self.point(row, key, window)
        script = """([x, y]) => { const canvas = document.querySelector('.hw-canvas');
          const box = canvas.getBoundingClientRect();
          const at = [Math.floor(x - box.x), Math.floor(y - box.y)];
          return [...canvas.getContext('2d').getImageData(...at, 1, 1).data]; }"""
        return tuple(self.page.evaluate(script, [x, y]))

    def next_report(self, name: str):
        """What the viewer reports next under a name: the last of what has come since this was asked before."""
        script = "([name, seen]) => reports.filter((report) => report[0] === name).length > seen"
        self.page.wait_for_function(script, arg=[name, self.seen.get(name, 0)], timeout=15_000)
        self.page.wait_for_timeout(100)
        values = [value for key, value in self.page.evaluate("window.reports") if key == name]
        self.seen[name] = len(values)
        return values[-1]


@pytest.fixture(scope="module")
def long():
    with ViewerServer(causal_map(700)) as server:
        yield server


@pytest.fixture(scope="module")
def small():
    with ViewerServer(causal_map(20)) as server:
        yield server


def four_digits(value: float) -> float:
    return float(f"{value:.3e}")


def test_hover_tells_tokens_weight_rank_and_uniform(page, small):
    shown = Shown(page, small)
    text = shown.hover(12, 5)
    weights = small.made.weights[12, :13]
    found = re.search(r"query 12 “·t12” → key 5 “·t5” · weight (\S+) · rank (\d+) of 13 · uniform would be (\S+)", text)
    assert found, text
    assert float(found[1]) == pytest.approx(four_digits(float(weights[5])), rel=1e-6)
    assert int(found[2]) == int((weights > weights[5]).sum()) + 1
    assert float(found[3]) == pytest.approx(1 / 13, rel=1e-3)


def test_an_invisible_cell_is_said_to_be_no_zero_and_looks_like_none(page, small):
    shown = Shown(page, small)
    assert "not visible" in shown.hover(5, 12)
    page.mouse.move(1, 1)
    hidden = {shown.pixel(2 + step / 9, 15 + step / 7) for step in range(9)}
    assert (255, 255, 255, 255) not in hidden


def test_far_away_blocks_are_the_mean_of_their_visible_cells(page, long):
    with ViewerServer(causal_map(700)) as server:
        shown = Shown(page, server, exact=False, note="Only the pooled map was kept.")
        text = shown.hover(400, 200)
        found = re.search(r"queries (\d+)–(\d+) → keys (\d+)–(\d+) · mean weight (\S+)", text)
        assert found, text
        r0, r1, c0, c1 = (int(found[at]) for at in range(1, 5))
        block = server.made.weights[r0 : r1 + 1, c0 : c1 + 1]
        assert float(found[5]) == pytest.approx(float(block.mean()), rel=2e-3)
        assert all("size=128" in request for request in server.requests), (
            "no window of a head without exact map is asked"
        )
        assert "Only the pooled map" in page.locator(".hw-note").text_content()


def test_the_largest_weight_of_a_block_on_request(page, long):
    shown = Shown(page, long, exact=False)
    page.get_by_role("button", name="Max").click()
    shown.settle()
    text = shown.hover(400, 200)
    values, _ = pooled(long.made.weights, long.made.visible, 128, "max")
    told = float(re.search(r"max weight (\S+)", text)[1])
    assert told == pytest.approx(float(values[400 * 128 // 700, 200 * 128 // 700]), rel=2e-3)
    assert shown.next_report("look")["how"] == "max"


def test_zooming_reaches_exact_weights_and_reports_the_window(page, long):
    shown = Shown(page, long)
    page.mouse.move(*shown.point(400.5, 200.5))
    for _ in range(6):
        page.mouse.wheel(0, -700)
    shown.settle()
    text = shown.steady()
    found = re.search(r"query (\d+) .* → key (\d+) .* · weight (\S+)", text)
    assert found, text
    row, key = int(found[1]), int(found[2])
    assert abs(row - 400) <= 2 and abs(key - 200) <= 2, "the cell under the pointer stays there"
    assert float(found[3]) == pytest.approx(four_digits(float(long.made.weights[row, key])), rel=1e-6)
    window = shown.next_report("window")
    assert window["rows"][0] <= row < window["rows"][1] and window["rows"][1] - window["rows"][0] <= 6


def test_a_window_given_by_the_page_is_shown_and_its_own_echo_moves_nothing(page, long):
    window = ((500, 520), (480, 500))
    shown = Shown(page, long, rows=window[0], columns=window[1])
    assert "query 510 “·t510” → key 490 “·t490” · weight" in shown.hover(510, 490, window)
    page.locator(".hw-over").press("ArrowLeft")
    moved = shown.next_report("window")
    assert moved["columns"] == [477, 498] and moved["rows"] == [500, 520]
    page.locator(".hw-over").press("ArrowLeft")
    shown.show(window=moved)  # the page answers the first move while the second is on its way
    assert shown.next_report("window")["columns"] == [475, 495]
    shown.show(window=None)  # a link: the whole map
    assert "query 350" in shown.hover(350, 10)


def test_keys_zoom_and_reset(page, long):
    shown = Shown(page, long)
    canvas = page.locator(".hw-over")
    canvas.press("+")
    assert shown.next_report("window") == {"rows": [175, 525], "columns": [175, 525]}
    canvas.press("Home")
    assert shown.next_report("window") is None
    canvas.press("Shift+ArrowDown")
    assert "query 1 " in shown.steady(), "shift and arrows move the marked cell, for people without a pointer"


def test_box_zoom_double_click_and_drag(page, long):
    shown = Shown(page, long)
    page.keyboard.down("Shift")
    page.mouse.move(*shown.point(300.5, 100.5))
    page.mouse.down()
    page.mouse.move(*shown.point(399.5, 199.5), steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    window = shown.next_report("window")
    assert np.allclose([window["rows"], window["columns"]], [[300, 400], [100, 200]], atol=2)
    page.mouse.dblclick(*shown.point(350, 150, (window["rows"], window["columns"])))
    closer = shown.next_report("window")
    assert closer["rows"][1] - closer["rows"][0] == pytest.approx(51, abs=1)
    start = shown.point(350, 150, (closer["rows"], closer["columns"]))
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] + 60, start[1] + 30, steps=4)
    page.mouse.up()
    dragged = shown.next_report("window")
    assert dragged["columns"][0] < closer["columns"][0] and dragged["rows"][0] < closer["rows"][0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_zero_invisible_not_a_number_and_infinite_look_unlike(page, dark):
    weights = np.full((12, 12), 0.25, np.float32)
    weights[6, 1], weights[7, 2], weights[8, 3] = 0, np.nan, np.inf
    made = MadeMap(weights, np.tril(np.ones((12, 12), bool)))
    with ViewerServer(made) as server:
        shown = Shown(page, server, dark=dark)
        page.mouse.move(1, 1)
        background = (14, 17, 23, 255) if dark else (255, 255, 255, 255)
        assert shown.pixel(6.5, 1.2) == background, "zero is the background"
        assert background not in {shown.pixel(2.1 + step / 20, 9.5) for step in range(15)}, "invisible is hatched"
        edge = [shown.pixel(7.5, 2 + step / 100)[:3] for step in range(2, 15)]
        assert (255, 0, 255) in edge, "not a number has a magenta outline"
        edge = [shown.pixel(8.5, 3 + step / 100)[:3] for step in range(2, 15)]
        assert (255, 32, 32) in edge, "infinite has a red outline"
        assert "weight 0 " in shown.hover(6, 1)
        assert "not a number" in shown.hover(7, 2)
        assert "infinite" in shown.hover(8, 3)


def test_hiding_sinks_rescales_and_says_so_but_numbers_stay(page, long):
    shown = Shown(page, long, sinks=(0,))
    before = shown.hover(600, 0)
    page.get_by_role("button", name="Hide sinks").click()
    shown.settle()
    assert "sink key 0 “·t0”" in page.locator(".hw-note").text_content()
    assert shown.hover(600, 0) == before
    assert shown.next_report("look")["hide"] is True


def test_k05_without_sinks_the_hover_tells_the_share_of_what_is_left(page, small):
    shown = Shown(page, small, sinks=(0,), sinkfree=True)
    row = small.made.weights[15]
    rest = row[1:16] / row[1:16].sum()
    told = shown.hover(15, 9)
    assert f"weight {four_digits(row[9]):.4g}"[:10] in told
    assert f"{four_digits(rest[8])}" in told.partition(" of what sinks leave")[0]
    rank = 1 + int((rest > rest[8]).sum())
    assert f"rank {rank} of 15 · uniform would be 0.06667" in told
    assert shown.hover(15, 0).endswith("a sink: taken out of this row")
    note = page.locator(".hw-note").text_content()
    assert note.startswith("Without sinks: sink key 0 “·t0”") and "shares of what is left of a row" in note


def test_per_row_colour_makes_the_strongest_cell_of_each_row_alike(page, small):
    shown = Shown(page, small)
    rows = small.made.weights[[8, 17]]
    places = [(8.5, rows[0].argmax() + 0.5), (17.5, rows[1].argmax() + 0.5)]
    page.mouse.move(1, 1)
    assert shown.pixel(*places[0]) != shown.pixel(*places[1])
    page.get_by_role("button", name="Per row").click()
    shown.settle()
    page.mouse.move(1, 1)
    assert shown.pixel(*places[0]) == shown.pixel(*places[1]) == (0, 34, 78, 255), "the end of the palette"


def test_on_a_log_scale_zero_keeps_its_own_colour(page):
    weights = np.tril(np.full((8, 8), 1e-6, np.float32))
    weights[5, 1], weights[5, 2] = 0, 1
    with ViewerServer(MadeMap(weights, np.tril(np.ones((8, 8), bool)))) as server:
        shown = Shown(page, server, look=Look(scale="log"))
        page.mouse.move(1, 1)
        assert shown.pixel(5.5, 1.2) == (255, 255, 255, 255)
        assert shown.pixel(6.5, 1.2) not in ((255, 255, 255, 255), shown.pixel(5.5, 2.2))


def test_text_is_coloured_by_the_row_under_the_pointer(page, small):
    shown = Shown(page, small)
    shown.hover(12, 5)
    tokens = page.locator(".hw-token")
    assert tokens.count() == 20
    colours = tokens.evaluate_all("spans => spans.map(span => span.style.backgroundColor)")
    row = small.made.weights[12, :13]
    assert colours[13:] == [""] * 7, "tokens that the query may not see have no colour"
    darkest = min(range(13), key=lambda at: sum(map(int, re.findall(r"\d+", colours[at]))))
    assert darkest == int(row.argmax())
    assert "From query 12" in page.locator(".hw-sentence").text_content()
    assert (
        f"{round(100 * row[0])} % of this row is on the first token: a sink"
        in page.locator(".hw-sentence").text_content()
    )
    tokens.nth(7).hover()
    page.wait_for_timeout(200)
    assert "From query 7" in page.locator(".hw-sentence").text_content()


def test_text_can_show_attention_to_a_token(page, small):
    shown = Shown(page, small)
    page.get_by_role("button", name="to token").click()
    shown.hover(12, 5)
    assert "To key 5" in page.locator(".hw-sentence").text_content()
    column = small.made.weights[5:, 5]
    assert f"{5 + int(column.argmax())} “" in page.locator(".hw-list").text_content().split("·")[0]


def test_hostile_tokens_are_shown_literally(page):
    labels = [
        "<img·src=x·onerror=alert(1)>",
        "</script><b>",
        "$5·**x**",
        "\u202e",
        "[x](y)",
        "é",
        "👩‍🚀",
        "·" * 300,
        "\\",
        "&amp;",
    ]
    made = causal_map(len(labels))
    made.labels = labels
    with ViewerServer(made) as server:
        page.on("dialog", lambda dialog: pytest.fail("a token was run as a script"))
        shown = Shown(page, server)
        assert page.locator(".hw-token").all_text_contents() == labels
        assert page.locator(".hw-viewer img, .hw-viewer b, .hw-viewer a").count() == 0
        assert f"key 0 “{labels[0]}”" in shown.hover(3, 0)


def test_one_token(page):
    with ViewerServer(MadeMap(np.ones((1, 1), np.float32), np.ones((1, 1), bool))) as server:
        shown = Shown(page, server)
        assert "weight 1.000 · rank 1 of 1" in shown.hover(0, 0)
        assert "one key only" in page.locator(".hw-sentence").text_content()
        page.mouse.wheel(0, -700)


def test_a_rectangle_and_rows_that_see_nothing(page):
    weights = np.full((6, 15), 1 / 15, np.float32)
    visible = np.ones((6, 15), bool)
    visible[2] = False
    with ViewerServer(MadeMap(weights, visible)) as server:
        shown = Shown(page, server)
        assert "rank 1 of 15" in shown.hover(4, 14)
        assert "not visible" in shown.hover(2, 3)
        assert "sees no key" in page.locator(".hw-sentence").text_content()


def test_clicking_marks_a_cell_and_reports_it(page, small):
    shown = Shown(page, small)
    page.mouse.click(*shown.point(9.5, 4.5))
    assert shown.next_report("cell") == {"query": 9, "key": 4}
    page.mouse.move(1, 1)
    assert "query 9 " in shown.steady(), "the mark stays when the pointer leaves"


def test_a_failed_request_is_said(page, small):
    shown = Shown(page, small)
    page.evaluate("message => show(message)", {**shown.message, "map": "data/made/map/self/7/7"})
    page.wait_for_selector("[data-state=failed]")
    assert "could not be loaded" in page.locator(".hw-note").text_content()
    page.console_errors[:] = [text for text in page.console_errors if "404" not in text]


def test_only_wanted_tiles_are_asked_for_and_kept_ones_not_again(page):
    with ViewerServer(causal_map(700)) as server:
        shown = Shown(page, server)
        upper = [request for request in server.requests if "rows=0:256&columns=512:700" in request]
        assert upper == [], "tiles where nothing is visible are not fetched"
        asked = len(server.requests)
        page.locator(".hw-over").press("+")
        shown.settle()
        page.locator(".hw-over").press("Home")
        shown.settle()
        again = [request for request in server.requests[asked:] if request in server.requests[:asked]]
        assert again == []


def test_labels_of_the_page_are_for_screen_readers_too(page, small):
    shown = Shown(page, small)
    label = page.locator(".hw-over").get_attribute("aria-label")
    assert "20 queries down, 20 keys across" in label
    assert page.locator(".hw-readout").get_attribute("role") == "status"
    assert json.loads(json.dumps(shown.message))["name"] == "0.0"


def beside(made: MadeMap, name: str = "0.0") -> dict:
    """A map beside or against the chosen one; the server has one map for all heads."""
    return {"name": name, "head": name, "map": "data/made/map/self/0/0", "exact": True, "sinks": []}


def test_maps_side_by_side_move_in_step_and_tell_their_own_name(page, long):
    shown = Shown(page, long)
    others = [
        {**beside(long.made, name), "map": f"data/made/map/self/0/{at}"} for at, name in enumerate(("1.0", "2.0"), 1)
    ]
    shown.show(others=others)
    assert page.locator(".hw-pane").count() == 3
    second = page.locator(".hw-over").nth(1)
    box = second.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.7)
    page.mouse.wheel(0, -700)
    shown.settle()
    assert shown.steady().startswith("1.0 · ")
    labels = page.locator(".hw-canvas:not(.hw-over)").evaluate_all("all => all.map(one => one.toDataURL())")
    assert len(set(labels)) == 1, "the server gives every head the same map, and all show the same window of it"
    page.get_by_role("button", name="Take head 2.0 away").click()
    assert shown.next_report("pin") == {"head": "2.0"}
    shown.show(others=[])
    assert page.locator(".hw-pane").count() == 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_difference_of_a_map_with_itself_is_the_background_everywhere(page, small, dark):
    shown = Shown(page, small, dark=dark)
    shown.show(minus=beside(small.made, "1.0"))
    page.mouse.move(1, 1)
    background = (14, 17, 23, 255) if dark else (255, 255, 255, 255)
    assert {shown.pixel(row + 0.5, key + 0.2) for row in range(3, 20, 4) for key in range(0, row, 3)} == {background}
    weight = f"{small.made.weights[12, 5]:#.4g}"
    assert (
        f"0.0 minus 1.0 · query 12 “·t12” → key 5 “·t5” · difference 0 = {weight} (0.0) − {weight} (1.0)"
        in shown.hover(12, 5)
    )


def test_a_difference_is_orange_above_zero_and_blue_below(page):
    first, second = causal_map(20, seed=1), causal_map(20, seed=2)
    with ViewerServer(first) as server, ViewerServer(second) as other:
        page.route(
            "**/self/9/9*",
            lambda route: route.continue_(url=route.request.url.replace(server.url, other.url).replace("/9/9", "/0/0")),
        )
        shown = Shown(page, server)
        shown.show(minus={**beside(first, "9.9"), "map": "data/made/map/self/9/9"})
        page.mouse.move(1, 1)
        change = np.where(first.visible, first.weights - second.weights, 0)
        up, down = (np.unravel_index(at, change.shape) for at in (change.argmax(), change.argmin()))
        red, _, blue, _ = shown.pixel(up[0] + 0.5, up[1] + 0.5)
        assert red > blue
        red, _, blue, _ = shown.pixel(down[0] + 0.5, down[1] + 0.5)
        assert blue > red
        told = re.search(r"difference ([+−]\S+) = ", shown.hover(*map(int, up)))
        assert float(told[1].replace("+", "")) == pytest.approx(float(change.max()), rel=1e-3)


def test_weights_below_the_threshold_are_drawn_like_zero_with_a_note(page, small):
    shown = Shown(page, small, look=Look(threshold=0.2))
    page.mouse.move(1, 1)
    weights = np.where(small.made.visible, small.made.weights, 1)
    low, high = (
        np.argwhere(weights[8:] < 0.2)[0] + (8, 0),
        np.argwhere((weights[8:] > 0.3) & small.made.visible[8:])[0] + (8, 0),
    )
    assert shown.pixel(low[0] + 0.5, low[1] + 0.2) == (255, 255, 255, 255) != shown.pixel(high[0] + 0.5, high[1] + 0.2)
    assert "Weights below 0.2 are drawn like zero" in page.locator(".hw-note").text_content()
    page.get_by_label("Threshold").fill("0")
    assert shown.next_report("look")["threshold"] == 0


def test_quantiles_give_every_rank_its_share_of_the_palette(page, small):
    """Case 54: one strong column does not leave the rest blank."""
    shown = Shown(page, small, look=Look(scale="quantile"))
    page.mouse.move(1, 1)
    weights = small.made.weights[small.made.visible]
    order = sorted(((value, row, key) for (row, key), value in np.ndenumerate(small.made.weights) if key <= row))
    places = [order[len(order) * at // 8] for at in range(1, 8)]
    light = [sum(shown.pixel(row + 0.5, key + 0.2)[:3]) for _, row, key in places]
    assert light == sorted(light, reverse=True) and len(set(light)) == 7, "larger weights are darker, step by step"
    assert len(weights) == 210


def test_pinch_zooms_about_the_middle_of_two_fingers(chromium, long):
    context = chromium.new_context(viewport={"width": 1280, "height": 720}, has_touch=True)
    page = context.new_page()
    shown = Shown(page, long)
    x, y = shown.point(350, 175)
    session = context.new_cdp_session(page)

    def touch(kind: str, apart: float) -> None:
        points = (
            [] if kind == "touchEnd" else [{"x": x + way * apart, "y": y, "id": at} for at, way in enumerate((-1, 1))]
        )
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 30)
    for apart in (40, 50, 60):
        touch("touchMove", apart)
    touch("touchEnd", 0)
    window = shown.next_report("window")
    (r0, r1), (c0, c1) = window["rows"], window["columns"]
    assert r1 - r0 == pytest.approx(350, abs=12) and c1 - c0 == pytest.approx(350, abs=12)
    assert (350 - r0) / (r1 - r0) == pytest.approx(0.5, abs=0.03) and (175 - c0) / (c1 - c0) == pytest.approx(
        0.25, abs=0.03
    )
    context.close()


def test_the_minimap_lies_outside_the_map_and_moves_the_window(page, long):
    shown = Shown(page, long, rows=(100, 200), columns=(0, 100))
    mini, whole = page.locator(".hw-mini").bounding_box(), page.locator(".hw-over").bounding_box()
    assert mini["y"] >= whole["y"] + whole["height"] - 1, "no cell lies under it"
    page.mouse.click(mini["x"] + mini["width"] * 0.5, mini["y"] + mini["height"] * 0.75)
    window = shown.next_report("window")
    assert sum(window["rows"]) / 2 == pytest.approx(525, abs=8) and sum(window["columns"]) / 2 == pytest.approx(
        350, abs=8
    )


def test_case_44_hidden_columns_keep_numbers_and_places(page, small):
    shown = Shown(page, small, sinks=(0,))
    before = [shown.hover(12, key) for key in (0, 5)]
    page.locator(".hw-over").press("s")
    shown.settle()
    assert [shown.hover(12, key) for key in (0, 5)] == before
    assert "sink key 0 “·t0”" in page.locator(".hw-note").text_content()


def test_the_picture_is_saved_as_png_and_svg_and_its_numbers_as_csv(page, small):
    shown = Shown(page, small, sinks=(0,))
    page.get_by_text("Save", exact=True).click()
    saved = {}
    for form in ("PNG", "SVG", "CSV"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save what is shown as {form}").click()
        assert download.value.suggested_filename == f"head-0.0.{form.lower()}"
        saved[form] = Path(download.value.path()).read_bytes()
    assert saved["PNG"][:8] == b"\x89PNG\r\n\x1a\n"
    svg = ElementTree.fromstring(saved["SVG"])
    space = "{http://www.w3.org/2000/svg}"
    assert {"0 ·t0", "19 ·t19", "weight"} <= {text.text for text in svg.iter(f"{space}text")}
    assert len(list(svg.iter(f"{space}rect"))) > 210 and not list(svg.iter(f"{space}image"))
    rows = list(csv.DictReader(io.StringIO(saved["CSV"].decode())))
    assert len(rows) == 400 and rows[12 * 20 + 5]["key_token"] == "·t5"
    assert float(rows[12 * 20 + 5]["weight"]) == pytest.approx(float(small.made.weights[12, 5]), rel=1e-5)
    assert rows[5 * 20 + 12] == {**rows[5 * 20 + 12], "weight": "", "visible": "false"}, "invisible is no zero"
    assert shown.readout()


def test_case_57_the_numbers_are_in_a_table_that_keys_reach(page, small):
    Shown(page, small)
    page.get_by_text("Save", exact=True).click()
    page.get_by_role("button", name="Show the numbers of this window").press("Enter")
    page.locator(".hw-table td").first.wait_for()
    assert page.locator(".hw-table tr").count() == 211, "a head line and every visible cell"
    cells = page.locator(".hw-table tr").nth(1 + 12 * 13 // 2 + 5).locator("td").all_text_contents()
    assert cells[:4] == ["12", "·t12", "5", "·t5"]
    assert float(cells[4]) == pytest.approx(four_digits(float(small.made.weights[12, 5])), rel=1e-3)
    assert page.locator(".hw-table").get_attribute("tabindex") == "0"


def test_csv_cells_cannot_start_a_formula(page):
    made = causal_map(4)
    made.labels = ["=1+1", '"quoted"', "a,b", "·@cmd"]
    with ViewerServer(made) as server:
        Shown(page, server)
        page.get_by_text("Save", exact=True).click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Save what is shown as CSV").click()
        rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8"))))
        assert [row["key_token"] for row in rows[:4]] == ["'=1+1", '"quoted"', "a,b", "·@cmd"]


def test_a_token_is_searched_and_its_row_marked(page, small):
    shown = Shown(page, small)
    page.keyboard.press("/")
    page.keyboard.type("T1")
    assert page.locator(".hw-found").count() == 11, "t1 and t10 to t19, whatever the case"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert shown.next_report("cell") == {"query": 10, "key": None}
    assert "2 of 11" in page.locator(".hw-right").text_content()

"""Lessons in a real Chromium: each is walked, presented by keys, and a hand-out opens with the network blocked."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from backend.settings import bundled_folder
from backend.store import Library
from pages.shared import lessons
from pages.shared.exports.lesson_html import lesson_html
from tools.app_server import serve

pytestmark = pytest.mark.browser

DRAWN = ".hw-viewer[data-state=ready], [data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("data")) as url:
        yield url


def picture(page) -> None:
    page.wait_for_selector(DRAWN, timeout=60_000)


@pytest.mark.parametrize("lesson", lessons.all(), ids=lambda lesson: lesson.name)
def test_a_lesson_is_walked_in_the_browser(page, address, lesson):
    page.goto(f"{address}/lessons?lesson={lesson.name}")
    for number, step in enumerate(lesson.steps, 1):
        page.get_by_role("heading", name=step.title).wait_for(timeout=60_000)
        if step.hides:
            page.locator(".st-key-headwater_reveal button").click()
            page.locator(".st-key-headwater_answer").wait_for()
        picture(page)
        assert page.locator(".stApp").get_by_text("could not be loaded").count() == 0
        if number < len(lesson.steps):
            page.locator(".st-key-headwater_next button").click()
    page.wait_for_url(re.compile(rf"step={len(lesson.steps)}"))


def test_a_clicker_presents_the_lesson_and_the_notes_follow(page, address):
    page.goto(f"{address}/lessons?lesson=reading_a_map&step=2&present=1")
    page.get_by_role("heading", name="The grey half").wait_for(timeout=60_000)
    picture(page)
    assert page.locator(".st-key-headwater_frame").is_hidden()
    with page.context.expect_page() as opened:
        page.keyboard.press("n")
    notes = opened.value
    notes.get_by_text("The grey half is the reason").wait_for(timeout=60_000)
    page.keyboard.press("PageDown")  # the answer first
    page.wait_for_url(re.compile("shown=2"), timeout=60_000)
    notes.wait_for_url(re.compile("shown=2"), timeout=60_000)
    notes.keyboard.press("PageDown")  # from the other window: the next step
    page.get_by_role("heading", name="A stripe along the edge").wait_for(timeout=60_000)
    notes.get_by_role("heading", name="A stripe along the edge").wait_for(timeout=60_000)
    page.keyboard.press("PageUp")
    page.get_by_role("heading", name="The grey half").wait_for(timeout=60_000)
    page.mouse.move(700, 400)
    page.keyboard.press("o")
    assert page.locator(".headwater-spotlight").get_attribute("data-shade") == "spot"
    page.keyboard.press("Escape")
    assert page.locator(".headwater-spotlight").is_hidden()
    page.keyboard.press("Escape")
    page.locator(".st-key-headwater_frame").wait_for(state="visible", timeout=60_000)
    assert "present" not in page.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_notes_are_read_in_a_light_and_in_a_dark_window(page, address, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{address}/lessons?lesson=how_sparse&step=2&present=notes")
    page.get_by_text("Say what a bar counts").wait_for(timeout=60_000)
    text, ground = (
        [
            int(value)
            for value in re.findall(r"\d+", page.locator(where).first.evaluate(f"e => getComputedStyle(e).{what}"))
        ]
        for where, what in ((".st-key-headwater_notes [data-testid=stText]", "color"), (".stApp", "backgroundColor"))
    )
    assert abs(sum(text[:3]) - sum(ground[:3])) > 3 * 120 and (sum(ground[:3]) < 3 * 128) == (scheme == "dark")


LONGEST = {
    lesson.name: max(
        range(len(lesson.steps)), key=lambda at, lesson=lesson: len(lesson.steps[at].text + lesson.steps[at].reveal)
    )
    for lesson in lessons.all()
}
CUT = """() => {
  const at = (name) => document.querySelector(`.st-key-headwater_${name}`);
  if (!["presenter_bar", "words", "lesson_picture"].every(at)) return ["not drawn yet"];
  const bar = at("presenter_bar").getBoundingClientRect().top;
  const [words, main] = [at("words"), document.querySelector(".stMain")];
  const said = [];
  for (const [name, box] of [["words", words], ["picture", at("lesson_picture")]]) {
    const { bottom, right } = box.getBoundingClientRect();
    if (bottom > bar + 1) said.push(`${name}: ${bottom - bar} pixels below the bar`);
    if (right > window.innerWidth + 1) said.push(`${name}: beyond the right edge`);
  }
  const hidden = words.scrollHeight - words.clientHeight;
  if (hidden > 1) said.push(`${hidden} pixels of the words must be scrolled to`);
  for (const text of words.querySelectorAll("p, h3, label, pre, button")) {
    const inline = getComputedStyle(text).display === "inline";
    if (!inline && text.scrollWidth > text.clientWidth + 1) said.push(`cut: ${text.textContent}`);
  }
  if (main.scrollHeight > main.clientHeight + 1) said.push("the page itself is too high");
  return said;
}"""


@pytest.mark.parametrize("lesson", lessons.all(), ids=lambda lesson: lesson.name)
def test_the_longest_step_of_each_lesson_fits_the_presenters_screen(page, address, lesson):
    """At 1280 x 720, before and after the answer: type shrinks, and nothing is cut off or hidden by the bar."""
    number = LONGEST[lesson.name] + 1
    page.goto(f"{address}/lessons?lesson={lesson.name}&step={number}&present=1")
    page.get_by_role("heading", name=lesson.steps[number - 1].title).wait_for(timeout=60_000)
    listens(page)
    fits(page)
    if lesson.steps[number - 1].hides:
        page.keyboard.press("PageDown")
        page.locator(".st-key-headwater_answer").wait_for(timeout=60_000)
    picture(page)
    fits(page)


def listens(page) -> None:
    """Waits until the presenter's part of the browser is there and hears keys."""
    page.locator(".st-key-headwater_presenter_bar").get_by_text("Leave").wait_for(timeout=60_000)


def fits(page) -> None:
    """Waits until nothing is cut off; says what is, where that does not come."""
    try:
        page.wait_for_function(f"() => ({CUT})().length === 0", timeout=20_000)
    except PlaywrightTimeout:
        assert page.evaluate(CUT) == []


def test_the_spotlight_begins_on_the_part_that_the_step_names(page, address):
    page.goto(f"{address}/lessons?lesson=sinks&present=1")
    picture(page)
    listens(page)
    page.mouse.move(900, 600)
    page.keyboard.press("o")
    shade = page.locator(".headwater-spotlight")
    across, down, x, y = ellipse(shade)
    canvas = page.locator(".hw-over").first.bounding_box()
    assert canvas["x"] < x < canvas["x"] + canvas["width"] / 2, "the first column is on the left of the map"
    assert canvas["y"] < y < canvas["y"] + canvas["height"] and down > 3 * across
    page.mouse.move(700, 300, steps=5)
    across, down, x, y = ellipse(shade)
    assert (x, y) == (700, 300) and across == down, "and follows the pointer"


def ellipse(shade) -> tuple[float, float, float, float]:
    """Half axes and middle of the light."""
    text = shade.evaluate("element => element.style.background")
    return tuple(map(float, re.search(r"([\d.]+)px ([\d.]+)px at ([\d.]+)px ([\d.]+)px", text).groups()))


def test_in_a_course_page_the_step_stands_without_the_menu(page, address):
    page.goto(f"{address}/lessons?lesson=sinks&step=2&embed=true")
    page.get_by_role("heading", name="It is the place").wait_for(timeout=60_000)
    picture(page)
    assert page.locator(".st-key-headwater_frame").is_hidden()


def test_a_hand_out_opens_without_a_network_and_its_map_zooms(page, tmp_path):
    library = Library(bundled_folder(), read_only=True)
    file = tmp_path / "handout.html"
    file.write_text(lesson_html(lessons.find("reading_a_map"), library.open), "utf-8")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    page.goto(file.as_uri())
    page.wait_for_selector(".hw-viewer[data-state=ready]", timeout=60_000)
    page.locator(".hw-over").first.scroll_into_view_if_needed()
    box = page.locator(".hw-over").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    whole = drawn(page)
    for _ in range(3):
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(100)
    page.wait_for_timeout(500)
    assert drawn(page) != whole
    said = page.locator(".hw-readout").first.text_content()
    query, key, weight = re.search(r"query (\d+) .* key (\d+) .* weight ([\d.e-]+)", said).groups()
    assert float(weight) == pytest.approx(library.open("bundled-story").map(16, 0)[int(query), int(key)], rel=1e-3)
    page.locator("summary").first.click()
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


def drawn(page) -> str:
    return page.locator(".hw-viewer canvas").first.evaluate("canvas => canvas.toDataURL()")

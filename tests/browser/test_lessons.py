"""Lessons in a real Chromium: each is walked, presented by keys, and a hand-out opens with the network blocked."""

from __future__ import annotations

import re

import pytest

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

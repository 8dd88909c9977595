"""A picture with its text, in a real browser: given on the first page, read by a tiny model, drawn over its patches."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from backend.store import Library
from tests.backend import tiny_pictures
from tests.backend.test_media import file_of, picture
from tools.app_server import serve

pytestmark = pytest.mark.browser

MAP = ".hw-viewer[data-state=ready]"
PATIENCE_MS = 60_000
BOXES = """svg => [...svg.querySelectorAll("image, path[aria-roledescription^=rect]")]
  .map((one) => one.getBoundingClientRect()).filter((box) => box.width > 0).map((box) => box.toJSON())"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The app on a data folder of its own, and a folder with a tiny LLaVA."""
    data, model = tmp_path_factory.mktemp("app"), tmp_path_factory.mktemp("model")
    tiny_pictures.save("llava", model)
    with serve(data) as url:
        yield url, data, model


@pytest.fixture(scope="module")
def read(place, chromium):
    """The address of the analysis, made on the first page as a person makes it."""
    url, data, model = place
    context = chromium.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    page.goto(url)
    page.get_by_role("button", name="Folder", exact=True).or_(page.get_by_role("radio", name="Folder")).first.click()
    page.get_by_label("Folder on the server").fill(str(model))
    page.get_by_role("button", name="Media", exact=True).or_(page.get_by_role("radio", name="Media")).first.click()
    chooser = page.locator(".st-key-headwater_media input[type=file]")
    chooser.set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": b"no picture"})
    expect(page.get_by_text("The picture cannot be read")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    chooser.set_input_files({"name": "river.png", "mimeType": "image/png", "buffer": file_of(picture(64, 64))})
    expect(page.get_by_text("The picture cannot be read")).to_have_count(0, timeout=PATIENCE_MS)
    page.get_by_label("Text with the picture").fill("the cat sat")
    page.get_by_text("Keep the file in the analysis").click()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Done.").wait_for(timeout=PATIENCE_MS)
    context.close()
    entry = Library(data).list()[0]
    return f"{url}/heads?analysis={entry.id}&layer=1&head=2", Library(data).open(entry.id)


def test_the_picture_stands_beside_the_map_by_its_name_and_one_click_leaves_it_out(page, read):
    address, found = read
    page.goto(address)
    page.wait_for_selector(MAP, timeout=PATIENCE_MS)
    fold = page.get_by_role("button", name=re.compile("Leave the picture"))
    expect(fold).to_have_attribute("aria-pressed", "false")
    fold.click()
    expect(fold).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".hw-note")).to_contain_text("The picture's 16 keys are in no colour and no scale.")
    page.wait_for_function("() => location.search.includes('fold=1')")
    box = page.locator(".hw-over").bounding_box()
    segment = next(one for one in found.segments() if one.kind == "picture")
    middle = (segment.start + segment.end) / 2 / found.info["n_tokens"]
    left, top, side = 92, 76, box["width"] - 102  # where the map's cells begin, and their extent
    page.mouse.click(box["x"] + left + middle * side, box["y"] + top - 12)
    expect(fold).to_have_attribute("aria-pressed", "false")


def test_the_heat_lies_over_the_picture_and_a_click_on_a_patch_chooses_it(page, read):
    address, found = read
    page.goto(f"{address}&part=picture")
    chart = page.locator(".st-key-head_picture .vega-embed svg")
    expect(chart).to_be_visible(timeout=PATIENCE_MS)
    image = chart.locator("image")
    expect(image).to_have_count(1)
    assert image.get_attribute("href").startswith("data:image/png;base64,")
    boxes = chart.evaluate(BOXES)  # all of them at one moment: the page above may still grow
    drawn, squares = boxes[0], boxes[1:]
    assert len(squares) >= 16
    for side, size in (("x", "width"), ("y", "height")):  # the patches cover the picture, and nothing else
        assert min(one[side] for one in squares) == pytest.approx(drawn[side], abs=2)
        assert max(one[side] + one[size] for one in squares) == pytest.approx(drawn[side] + drawn[size], abs=2)
    assert drawn["width"] == pytest.approx(drawn["height"], rel=0.02)  # a square picture is drawn as one
    image.click(position={"x": drawn["width"] * 1.5 / 4, "y": drawn["height"] * 2.5 / 4}, force=True)  # patch 2,1
    start = found.info["patches"]["start"]
    page.wait_for_function(f"() => location.search.includes('query={start + 9}')", timeout=PATIENCE_MS)


def test_the_heat_is_saved_with_its_picture(page, read):
    address, _ = read
    page.goto(f"{address}&part=picture")
    part = page.locator(".st-key-head_picture")
    expect(part.locator(".vega-embed svg image")).to_have_count(1, timeout=PATIENCE_MS)
    part.get_by_role("button", name="Export").or_(part.get_by_role("radio", name="Export")).first.click()
    for form in ("SVG", "PNG"):
        with page.expect_download(timeout=PATIENCE_MS) as saved:
            part.get_by_role("button", name=form, exact=True).click()
        content = saved.value.path().read_bytes()
        assert (b"data:image/png;base64," in content) if form == "SVG" else content.startswith(b"\x89PNG")

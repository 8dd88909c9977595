"""The page Heads in Chromium: without sinks, saved text and lines, quick clicks, keys, labels, damage, contrast."""

import io
import re
import xml.etree.ElementTree as ElementTree

import duckdb
import pytest
from PIL import Image
from playwright.sync_api import expect

from backend.store import Library, files
from tests.backend.sinks.planted import sink_at, stored
from tests.browser.test_head_parts import CONTRAST
from tests.stored import store
from tools.app_server import serve

pytestmark = pytest.mark.browser
SVG = "{http://www.w3.org/2000/svg}"
READY = ".hw-viewer[data-state=ready]"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The app with a plain, a planted and a damaged analysis; its address."""
    folder = tmp_path_factory.mktemp("data")
    store(folder, id="plain-one", n_tokens=40, text="a <b>x</b> &amp; ")
    planted = stored(folder, [sink_at(40, 0, 3.0), sink_at(40, 0, 3.0)]).id
    store(folder, id="damaged-one", n_tokens=40)
    with duckdb.connect(str(Library(folder).folder("damaged-one") / files.FILE)) as file:
        file.execute("UPDATE maps_0 SET data = data || '\\x00' WHERE part = 'query' AND layer = 1 AND head = 2")
    with serve(folder) as address:
        yield f"{address}/heads?analysis=", planted


def test_k05_without_sinks_acts_on_grid_map_and_sentence(page, site):
    heads, planted = site
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/grid/" in request.url else None)
    page.goto(f"{heads}{planted}&query=20")
    page.wait_for_selector(READY, timeout=60_000)
    sentence, note = page.locator(".hw-sentence"), page.locator(".hw-note")
    expect(sentence).to_contain_text("of this row is on the first token: a sink.")
    expect(note).to_have_text("")
    page.locator("label", has_text="Without sinks").click()
    expect(note).to_contain_text("Without sinks: sink key 0 “w0")
    # Without its sink, row 20 looks at its 20 other keys alike.
    expect(sentence).to_contain_text("spread without sinks: no key gets more than 5.0 %; uniform would be 5.0 %")
    expect(page.locator(".hg-bar")).to_contain_text("columns of sinks")
    expect(page.get_by_role("button", name="Hide sinks")).to_be_disabled()
    page.wait_for_function("location.search.includes('sinkfree=on')")
    expect(page.locator(".hg-picture").first).to_have_attribute("src", re.compile("sinks=hide"))
    assert any("sinks=hide" in url for url in asked) and any("sinks=" not in url for url in asked)
    page.locator(".hw-token").nth(0).hover()  # row 0 sees nothing but the sink
    expect(sentence).to_contain_text("Without sinks nothing is left of this row.")


def saved(page, part, form: str) -> bytes:
    """What the button of a form saves."""
    with page.expect_download() as download:
        part.get_by_role("button", name=form, exact=True).click()
    assert download.value.suggested_filename.endswith(f".{form.lower()}")
    return download.value.path().read_bytes()


@pytest.mark.parametrize(("part", "shown"), [("text", ".tv-unit"), ("lines", ".lv-word")])
def test_text_and_lines_save_as_svg_and_png(page, site, part, shown):
    heads, _ = site
    page.goto(f"{heads}plain-one&part={part}&tokens=30")
    expect(page.locator(shown).first).to_be_visible(timeout=60_000)
    box = page.locator(f".st-key-headwater_part_{part}")
    box.locator("button", has_text="Export").click()
    svg = ElementTree.fromstring(saved(page, box, "SVG"))
    words = "".join(text.text or "" for text in svg.iter(f"{SVG}text"))
    assert "<" in words and svg.find(f"{SVG}b") is None
    if part == "text":
        assert sum(1 for one in svg.iter(f"{SVG}rect")) > 40 and "attention of head 0.0 from 30" in words
    else:
        strokes = {line.get("style") for line in svg.iter(f"{SVG}line")}
        assert len(list(svg.iter(f"{SVG}line"))) == 40 * 41 // 2 and all("stroke: rgb" in one for one in strokes)
    picture = Image.open(io.BytesIO(saved(page, box, "PNG")))
    assert picture.width == 2 * int(float(svg.get("width"))) and len(picture.convert("RGB").getcolors(1 << 24)) > 20


def test_quick_clicks_build_on_each_other_whatever_the_page_has_answered(page, site):
    heads, _ = site
    page.goto(f"{heads}plain-one&part=text&tokens=20")
    units = page.locator(".tv-unit")
    expect(units).to_have_count(40, timeout=60_000)
    expect(page.locator(".tv-chosen")).to_have_count(1)
    # All three before the page can answer the first: in one task of the browser.
    units.nth(7).evaluate(
        """span => {
          const click = (at, shiftKey) => span.parentElement.querySelectorAll(".tv-unit")[at]
            .dispatchEvent(new MouseEvent("click", { bubbles: true, shiftKey }));
          click(7, false); click(12, true); click(3, true);
        }"""
    )
    expect(page).to_have_url(re.compile(r"tokens=3(%2C|,)7(%2C|,)12(&|$)"))
    expect(page.locator(".tv-readout")).to_contain_text("from 3 “")
    expect(page.locator(".tv-chosen")).to_have_count(3)
    for at in (3, 7, 12):
        expect(units.nth(at)).to_have_class(re.compile("tv-chosen"))
    units.nth(7).click(modifiers=["Shift"])
    expect(page).to_have_url(re.compile(r"tokens=3(%2C|,)12(&|$)"))
    page.locator(".lv-word")  # a click in Lines says its token, too
    page.goto(f"{heads}plain-one&part=lines&unit=word")
    word = page.locator(".lv-word").nth(2)
    expect(word).to_be_visible(timeout=60_000)
    start = int(page.evaluate("""async () => (await (await fetch("data/plain-one/tokens.json")).json()).rows.length"""))
    word.click()
    page.wait_for_function("/query=[0-9]+/.test(location.search)")
    assert int(re.search(r"query=(\d+)", page.url)[1]) < start


def test_keys_open_table_and_definition(page, site):
    heads, _ = site
    page.goto(f"{heads}plain-one")
    page.wait_for_selector(READY, timeout=60_000)
    list_of_heads = page.locator(".st-key-ranked_heads")
    expect(list_of_heads.locator("button", has_text="Table")).to_be_visible()
    page.keyboard.press("t")
    expect(page.get_by_test_id("stDataFrame").first).to_be_visible()
    page.keyboard.press("d")
    expect(list_of_heads.get_by_text("The share of attention on the first token").first).to_be_visible()
    expect(list_of_heads.get_by_test_id("stDataFrame")).to_have_count(0)  # one of them at a time


def test_labels_stand_beside_the_value_of_a_head(page, site):
    heads, planted = site
    page.goto(f"{heads}{planted}&part=labels")
    readout = page.locator(".hg-readout")
    expect(readout).to_contain_text(
        re.compile(r"0\.0 first mass: [0-9.]+ weight · (no label|.*[0-9]\.[0-9]{2})"), timeout=60_000
    )
    page.keyboard.press("ArrowDown")
    expect(readout).to_contain_text("1.0 first mass")
    expect(readout).to_contain_text(re.compile(r"weight · (no label|.*[0-9]\.[0-9]{2})"))


def test_a_damaged_blob_costs_its_head_and_is_said(page, site):
    heads, _ = site
    page.goto(f"{heads}damaged-one&layer=1&head=1")
    page.wait_for_selector(READY, timeout=60_000)
    expect(page.locator(".hw-sentence")).to_contain_text("Strongest")
    page.goto(f"{heads}damaged-one&layer=1&head=2&part=text")
    said = "queries of head 1.2: the bytes do not have the checksum they were written with. The rest can still be read."
    expect(page.locator(".hw-note")).to_contain_text(said, timeout=60_000)
    expect(page.locator(".st-key-headwater_part_text")).to_contain_text(said)
    assert page.get_by_text("Traceback").count() == 0
    expect(page.locator(".hg-strip").first).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".hw-viewer")).to_have_attribute("data-head", "1.3")
    page.wait_for_selector(READY)
    refused = [line for line in page.console_errors if "status of 4" in line or "status of 5" in line]
    page.console_errors[:] = [
        line for line in page.console_errors if line not in refused
    ]  # Chromium names each refusal
    assert refused and not page.console_errors


TEXTS = """() => {
  const behind = (part) => {
    const found = [];
    for (let at = part; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") found.push(colour);
      if (colour.startsWith("rgb(")) return found;
    }
    return [...found, "rgb(255, 255, 255)"];
  };
  const written = (part) => [...part.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const all = "p, label, summary, button, a, h3, [data-testid=stText], [data-testid=stText] *";
  return [...document.querySelectorAll(all)]
    .filter((part) => part.offsetParent !== null && written(part))
    .map((part) => [part.textContent.trim().slice(0, 60), getComputedStyle(part).color, behind(part)]);
}"""


def contrast(ink: str, backs: list[str]) -> float:
    """Of colours as a browser tells them (WCAG 2): ink on what lies behind it, the nearest first, the last opaque."""
    lying = [[float(value) for value in re.findall(r"[\d.]+", text)] for text in (ink, *backs)]
    back = lying[-1][:3]
    for layer in lying[-2:0:-1]:
        back = laid_over(layer, back)
    low, high = sorted((light(laid_over(lying[0], back)), light(back)))
    return (high + 0.05) / (low + 0.05)


def laid_over(front: list[float], back: list[float]) -> list[float]:
    share = front[3] if len(front) > 3 else 1.0
    return [share * a + (1 - share) * b for a, b in zip(front[:3], back, strict=True)]


def light(rgb: list[float]) -> float:
    """Relative luminance."""
    linear = [v / 255 / 12.92 if v / 255 <= 0.03928 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["projector", "light", "dark"])
def test_case_49_every_text_of_the_page_has_its_contrast(page, site, theme):
    heads, _ = site
    page.goto(f"{heads}plain-one&theme={theme}&part=text&tokens=39")
    page.wait_for_selector(READY, timeout=60_000)
    units = page.locator(".tv-unit:not(.tv-unseen)")
    expect(units).to_have_count(40, timeout=60_000)
    expect(page.locator(".st-key-ranked_heads")).to_be_visible()
    assert min(units.evaluate_all(CONTRAST)) >= 4.5
    found = page.evaluate(TEXTS)
    weak = [(text, ink, back) for text, ink, back in found if contrast(ink, back) < 4.5]
    assert len(found) > 20 and not weak, weak
    size = page.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize)")
    assert size == (22.4 if theme == "projector" else 16)


def test_the_contrast_of_black_on_white_is_21():
    white = "rgb(255, 255, 255)"
    assert contrast("rgb(0, 0, 0)", [white]) == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", [white]) == pytest.approx(4.48, abs=0.01)
    assert contrast("rgb(0, 0, 0)", ["rgba(0, 0, 0, 0.5)", white]) == pytest.approx(5.28, abs=0.05)

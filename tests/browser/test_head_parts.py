"""The parts of the page Heads in a browser, in light and dark, with every other host out of reach."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import is_error
from tests.stored import store
from tools.app_server import serve

pytestmark = pytest.mark.browser
TAGS = "<b>x</b> <img src=x onerror=alert(1)> </script><script>alert(2)</script> $5 _a_"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The app with one analysis whose tokens are tags; (address, id)."""
    folder = tmp_path_factory.mktemp("data")
    id = store(folder, n_tokens=40, text=TAGS)
    with serve(folder) as address:
        yield address, id


both_themes = pytest.mark.parametrize("alone", ["light", "dark"], indirect=True)


@pytest.fixture
def alone(request, chromium):
    """A page that can reach this machine only; in the end it has asked nothing of others."""
    context = chromium.new_context(
        viewport={"width": 1280, "height": 720}, color_scheme=getattr(request, "param", "light")
    )
    page = context.new_page()
    asked, errors = [], []

    def only_here(route):
        if "//127.0.0.1:" in route.request.url:
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    context.route("**/*", only_here)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if is_error(message) else None)
    page.on("dialog", lambda dialog: errors.append(f"a script ran: {dialog.message}"))
    yield page
    context.close()
    assert not asked and not errors, (asked, errors)


@both_themes
def test_case_48_bertviz_works_without_any_other_host(site, alone):
    address, id = site
    for view, tokens in (("head", 40), ("model", 40), ("neuron", 40)):
        alone.goto(f"{address}/heads?analysis={id}&part=bertviz&bertviz={view}&layer=1&head=2")
        frame = alone.frame_locator('iframe[title^="BertViz"]')
        expect(frame.locator("svg line").first).to_be_attached(timeout=60_000)
        if view == "model":
            frame.locator("svg rect").nth(3).click(force=True)  # enlarges a head: its words are drawn
        words = frame.locator("svg text", has_text="<").first
        expect(words).to_be_attached()
        assert frame.locator("svg img, svg b").count() == 0
        texts = frame.locator("svg text").all_text_contents()
        assert sum(text == "<" for text in texts) >= 2 * TAGS[:39].count("<")
        background = frame.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
        page_background = alone.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
        assert background == page_background  # case 49: no white panel in a dark page
        assert tokens == 40


def test_case_60_scripts_are_fetched_once(site, alone):
    address, id = site
    fetched = []
    alone.on("request", lambda request: fetched.append(request.url) if "/data/scripts/" in request.url else None)
    alone.goto(f"{address}/heads?analysis={id}&part=bertviz")
    frame = alone.frame_locator('iframe[title^="BertViz"]')
    expect(frame.locator("svg line").first).to_be_attached(timeout=60_000)
    alone.get_by_role("radio", name="Model view").or_(alone.get_by_text("Model view")).first.click()
    expect(frame.locator("svg text", has_text="Heads")).to_be_attached(timeout=60_000)
    names = [url.rpartition("/")[2].partition(".js")[0] for url in fetched]
    own = [name for name in names if "-" not in name]  # the page's components have names with a hash
    assert sorted(own) == ["d3", "head_view", "jquery", "model_view"]


def test_text_and_lines_are_literal_and_answer_to_clicks_and_keys(site, alone):
    address, id = site
    alone.goto(f"{address}/heads?analysis={id}&part=text&layer=1&head=2&tokens=20")
    unit = alone.locator(".tv-unit")
    expect(unit).to_have_count(40, timeout=60_000)
    assert "".join(unit.all_text_contents()).startswith("<b>x</b> <img src=x onerror")
    unit.nth(7).click()
    expect(alone).to_have_url(re.compile(r"tokens=7(&|$)"))
    expect(alone.locator(".tv-chosen")).to_have_count(1)
    expect(unit.nth(7)).to_have_class(re.compile("tv-chosen"))  # the page has answered
    unit.nth(12).click(modifiers=["Shift"])
    expect(alone).to_have_url(re.compile(r"tokens=7(%2C|,)12"))
    expect(alone.locator(".tv-chosen")).to_have_count(2)
    unit.nth(3).hover()
    expect(alone.locator(".tv-readout")).to_contain_text("3 “x”")
    alone.goto(f"{address}/heads?analysis={id}&part=lines&layer=1&head=2")
    expect(alone.locator(".lv-lines line").first).to_be_attached(timeout=60_000)
    assert alone.locator(".lv-lines line").count() == 40 * 41 // 2
    alone.locator(".lv-word").nth(5).hover()
    expect(alone.locator(".lv-readout")).to_contain_text("Head 1.2, query 5")


def test_labels_card_and_like_heads_are_drawn(site, alone):
    address, id = site
    for part in ("labels", "card", "alike"):
        alone.goto(f"{address}/heads?analysis={id}&part={part}")
        part_of_page = alone.locator(f".st-key-headwater_part_{part}")
        expect(
            part_of_page.locator('[data-testid="stVegaLiteChart"] svg, [data-testid="stVegaLiteChart"] canvas').first
        ).to_be_visible(timeout=60_000)


CONTRAST = """spans => {
  const light = (text) => {
    const rgb = text.match(/[\\d.]+/g).slice(0, 3).map((value) => {
      const share = Number(value) / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
  };
  return spans.map((span) => {
    const style = getComputedStyle(span);
    const [low, high] = [light(style.color), light(style.backgroundColor)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  });
}"""


@both_themes
def test_case_49_words_can_be_read_on_every_colour(site, alone):
    address, id = site
    alone.goto(f"{address}/heads?analysis={id}&part=text&layer=1&head=2&tokens=39")
    units = alone.locator(".tv-unit:not(.tv-unseen)")
    expect(units).to_have_count(40, timeout=60_000)
    assert min(units.evaluate_all(CONTRAST)) >= 4.5


@pytest.mark.parametrize("n", [8, 60])
def test_case_38_and_50_first_and_last_word_are_in_reach_and_nothing_is_empty(chinese, chromium, n):
    address, ids = chinese
    page = chromium.new_page(viewport={"width": 1280, "height": 720})
    page.goto(f"{address}/heads?analysis={ids[n]}&part=text")
    units = page.locator(".tv-unit")
    expect(units).to_have_count(n, timeout=60_000)
    frame = page.locator(".tv-text").bounding_box()
    for unit in (units.first, units.last):
        unit.scroll_into_view_if_needed()
        box = unit.bounding_box()
        assert box["width"] > 5 and box["x"] + box["width"] <= frame["x"] + frame["width"]
        assert box["y"] >= 0 and box["y"] + box["height"] <= 720
    page.goto(f"{address}/heads?analysis={ids[n]}&part=lines")
    words = page.locator(".lv-word")
    expect(words).to_have_count(2 * n, timeout=60_000)
    words.nth(2 * n - 1).scroll_into_view_if_needed()
    last = words.nth(2 * n - 1).bounding_box()
    assert 0 <= last["y"] <= 720
    height = page.locator(".lv-scroll").evaluate("e => [e.clientHeight, e.scrollHeight]")
    assert height[1] < 20 * (n + 2) + 30 and height[0] <= min(520, height[1])
    page.goto(f"{address}/heads?analysis={ids[n]}&part=bertviz")
    inside = page.frame_locator('iframe[title^="BertViz"]')
    expect(inside.locator("svg line").first).to_be_attached(timeout=60_000)
    drawn = inside.locator("svg").evaluate("e => e.getBoundingClientRect().bottom")
    given = float(page.locator('iframe[title^="BertViz"]').get_attribute("height"))
    assert drawn <= given <= drawn + 120
    page.close()


@pytest.fixture(scope="module")
def chinese(tmp_path_factory):
    """The app with short and long Chinese sentences, one token per character."""
    folder = tmp_path_factory.mktemp("data")
    text = "春眠不觉晓处处闻啼鸟夜来风雨声花落知多少" * 3
    ids = {n: store(folder, n_tokens=n, text=text[:n]) for n in (8, 60)}
    with serve(folder) as address:
        yield address, ids


def test_hints_can_be_put_away_and_stay_away(site, alone):
    address, id = site
    alone.goto(f"{address}/heads?analysis={id}")
    card = alone.locator(".hi-card")
    expect(card).to_contain_text("Hint 1 of 3", timeout=60_000)
    card.get_by_role("button", name="Next").click()
    expect(card).to_contain_text("Hint 2 of 3")
    card.get_by_role("button", name="Hide").click()
    expect(card).to_have_count(0)
    alone.reload()
    expect(alone.locator(".hg-body")).to_be_visible(timeout=60_000)
    expect(card).to_have_count(0)

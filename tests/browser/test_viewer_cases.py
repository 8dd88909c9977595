"""Texts, themes and sizes that viewers get wrong elsewhere, in the map viewer alone: each in light and dark."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pages.shared.map_viewer import Look
from tests.browser.test_map_viewer import Shown
from tests.browser.viewer_server import MadeMap, ViewerServer, causal_map

pytestmark = pytest.mark.browser

THEMES = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
CHINESE = (
    "他把米袋一个一个数过去，河水在夜里涨了起来，磨坊黑黑地立在水上，猫从横梁上看着他，灯火很小，没有人说话。早晨到了。"
)
TWICE = ["the", "cat", "sat", "on", "the", "mat", ".", "the", "cat", "lay", "on", "the", "rug", "."]
# Colours as the page shows them, the background of each element being that of its nearest painted ancestor.
COLOURS = """all => all.map((one) => {
  let back = one;
  while (back && /rgba\\(.*, 0\\)|transparent/.test(getComputedStyle(back).backgroundColor)) back = back.parentElement;
  const page = getComputedStyle(document.body).backgroundColor;
  return [getComputedStyle(one).color, back ? getComputedStyle(back).backgroundColor : page, one.textContent];
})"""


def with_labels(labels: list[str]) -> MadeMap:
    made = causal_map(len(labels))
    made.labels = labels
    return made


def drawn_texts(page) -> list[str]:
    """Every text around the map, as it stands in the saved SVG."""
    page.get_by_text("Save", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save what is shown as SVG").click()
    page.get_by_text("Save", exact=True).click()
    tree = ElementTree.fromstring(Path(download.value.path()).read_bytes())
    return [text.text or "" for text in tree.iter("{http://www.w3.org/2000/svg}text")]


def luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in re.findall(r"[\d.]+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@THEMES
def test_case_38_every_chinese_token_can_be_reached(page, dark):
    with ViewerServer(with_labels(list(CHINESE))) as server:
        shown = Shown(page, server, dark=dark)
        spans = page.locator(".hw-token")
        assert spans.all_text_contents() == list(CHINESE)
        spans.last.scroll_into_view_if_needed()
        panel, last = page.locator(".hw-text").bounding_box(), spans.last.bounding_box()
        assert last["x"] + last["width"] <= panel["x"] + panel["width"]
        assert last["y"] + last["height"] <= panel["y"] + panel["height"] + 1
        end = len(CHINESE) - 1
        assert f"query {end} “{CHINESE[-1]}” → key {end}" in shown.hover(end, end)


@THEMES
def test_case_39_white_space_is_seen_and_told_apart(page, dark):
    labels = ["a", "↵↵", "⇥", "b", "···", "c", "·the", "the"]
    with ViewerServer(with_labels(labels)) as server:
        shown = Shown(page, server, dark=dark)
        texts = drawn_texts(page)
        assert all(texts.count(f"{index} {label}") == 2 for index, label in enumerate(labels)), "on both axes"
        assert "key 6 “·the”" in shown.hover(7, 6) and "key 7 “the”" in shown.hover(7, 7)


@THEMES
def test_case_40_equal_words_are_positions_of_their_own(page, dark):
    with ViewerServer(with_labels(TWICE)) as server:
        shown = Shown(page, server, dark=dark)
        texts = drawn_texts(page)
        assert [text for text in texts if text.endswith(" cat")] == ["1 cat", "8 cat"] * 2, (
            "in reading order, not by name"
        )
        shown.hover(8, 3)
        marked = page.locator(".hw-marked")
        assert marked.count() == 1 and marked.get_attribute("data-index") == "8"


@THEMES
def test_case_47_long_tokens_with_the_same_start_are_told_apart(page, dark):
    long = ["https://example.org/" + "path/" * 8 + end for end in ("one", "two")] + ["7" * 39 + "1", "x" * 300]
    with ViewerServer(with_labels(long)) as server:
        shown = Shown(page, server, dark=dark)
        short = [text for text in drawn_texts(page) if "…" in text]
        assert len(set(short)) >= 4 and not any(len(text) > 60 for text in short)
        assert long[1] in shown.hover(1, 1) and "x" * 300 in shown.hover(3, 3)


@pytest.mark.parametrize("scheme", ["light", "dark"], ids=["system light", "system dark"])
@THEMES
def test_case_49_texts_keep_their_contrast_whatever_the_system_says(page, dark, scheme):
    page.emulate_media(color_scheme=scheme)
    with ViewerServer(causal_map(12)) as server:
        shown = Shown(page, server, dark=dark, sinks=(0,), look=Look(hide=True, threshold=0.01))
        shown.hover(9, 4)
        told = page.locator(".hw-button, .hw-readout, .hw-note, .hw-sentence, .hw-legend-entry, .hw-choice-label")
        for ink, back, text in told.evaluate_all(COLOURS):
            assert contrast(ink, back) >= 4.5, f"{text!r}: {ink} on {back}"
        tokens = page.locator(".hw-token:not(.hw-unseen)").evaluate_all(COLOURS)
        assert len(tokens) == 10 and all(contrast(ink, back) >= 4.5 for ink, back, _ in tokens), tokens
        page.mouse.move(1, 1)
        background = (14, 17, 23, 255) if dark else (255, 255, 255, 255)
        weights = np.where(shown.made.visible, shown.made.weights, 1)
        row, key = np.argwhere(weights[:, 1:] < 0.01)[0] + (0, 1)
        assert shown.pixel(row + 0.5, key + 0.2) == background, "zero is the background of the theme in use"


@pytest.mark.parametrize("count", [8, 300])
def test_case_50_the_text_is_as_high_as_it_needs_and_then_scrolls(page, count):
    with ViewerServer(causal_map(count)) as server:
        Shown(page, server)
        panel = page.locator(".hw-text")
        inside, seen = panel.evaluate("one => [one.scrollHeight, one.clientHeight]")
        assert (inside == seen) == (count == 8), "no empty tail, and no end that cannot be reached"
        for token in (page.locator(".hw-token").last, page.locator(".hw-token").first):
            token.scroll_into_view_if_needed()
            box, around = token.bounding_box(), panel.bounding_box()
            assert around["y"] - 1 <= box["y"] and box["y"] + box["height"] <= around["y"] + around["height"] + 1


@THEMES
def test_case_53_a_log_scale_says_zero_and_starts_at_the_smallest_weight(page, dark):
    weights = np.tril(np.full((8, 8), 2e-5, np.float32))
    weights[5, 1], weights[5, 2] = 0, 1
    with ViewerServer(MadeMap(weights, np.tril(np.ones((8, 8), bool)))) as server:
        shown = Shown(page, server, dark=dark, look=Look(scale="log"))
        assert "0 | ≤ 2e-5" in drawn_texts(page)
        assert "weight 0 " in shown.hover(5, 1)
        page.mouse.move(1, 1)
        assert shown.pixel(5.5, 1.2) == ((14, 17, 23, 255) if dark else (255, 255, 255, 255))


@THEMES
def test_4000_equal_tokens(page, dark):
    n = 4000
    made = MadeMap(
        np.tril(np.ones((n, n), np.float32)) / np.arange(1, n + 1, dtype=np.float32)[:, None], np.tri(n, dtype=bool)
    )
    made.labels = ["·a"] * n
    with ViewerServer(made) as server:
        shown = Shown(page, server, dark=dark)
        assert page.locator(".hw-token").count() == 3000
        assert "tokens 0 to 999 are not drawn" in page.locator(".hw-more").first.text_content()
        page.mouse.move(*shown.point(2000.5, 1000.5))
        for _ in range(9):
            page.mouse.wheel(0, -700)
        shown.settle()
        text = shown.steady()
        found = re.search(r"query (\d+) “·a” → key \d+ “·a” · weight (\S+) · rank 1 of (\d+)", text)
        assert found and int(found[3]) == int(found[1]) + 1, text
        assert float(found[2]) == pytest.approx(1 / int(found[3]), rel=1e-3)


@THEMES
def test_control_characters_and_one_token(page, dark):
    with ViewerServer(with_labels(["\x00\x07\x1b[31m"])) as server:
        shown = Shown(page, server, dark=dark)
        assert "weight 1.000 · rank 1 of 1" in shown.hover(0, 0)
        assert any("[31m" in text for text in drawn_texts(page))


def test_a_phone_shows_map_and_text_below_each_other(page):
    page.set_viewport_size({"width": 390, "height": 780})
    with ViewerServer(causal_map(30)) as server:
        page.add_init_script("addEventListener('DOMContentLoaded', () => { place.style.width = '374px'; })")
        shown = Shown(page, server)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, "nothing is wider than the phone"
        whole, text = page.locator(".hw-over").bounding_box(), page.locator(".hw-text").bounding_box()
        assert text["y"] > whole["y"] + whole["height"] and text["width"] > 300
        assert "weight" in shown.hover(20, 10)

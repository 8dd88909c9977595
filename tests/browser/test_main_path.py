"""The main job in a real browser: run SmolLM2 on a long prompt, open a head, zoom, read a weight, share the link."""

from __future__ import annotations

import re

import pytest
import torch

from backend.models import load
from backend.prompts import encode
from tests.backend.eager import eager_maps
from tools.app_server import serve

pytestmark = [pytest.mark.browser, pytest.mark.weights]

LAYER, HEAD = 5, 3
PARAGRAPH = (
    "The river rose in the night and the mill stood dark above it. Anna counted the sacks by lamplight, {number} of "
    "them, while the water climbed the lowest step and the cat watched from the beam."
)
PROMPT = "\n".join(PARAGRAPH.format(number=number) for number in range(20, 46))
CELL = re.compile(r"query (\d+).*?key (\d+).*?weight (\S+)", re.DOTALL)
MAP = ".hw-viewer[data-state=ready]"
SETTLE_MS = 600
PATIENCE_MS = 240_000


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("app")) as url:
        yield url


@pytest.fixture(scope="module")
def eager_map() -> torch.Tensor:
    """The model's own eager attention of one head, from a separate copy: [N, N]."""
    model = load("smollm2-135m-instruct")
    ids = torch.tensor([encode(model, PROMPT).token_ids])
    return eager_maps(model.model, {"input_ids": ids})[LAYER][0, HEAD]


def run_prompt(page, address: str, prompt: str) -> None:
    """From an empty browser to the heads page of a new analysis."""
    page.goto(address)
    page.get_by_label("Text", exact=True).last.fill(prompt)
    page.get_by_text(re.compile(r"^[\d,]+ tokens · about")).wait_for(timeout=PATIENCE_MS)  # the model is loaded for it
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Done.").wait_for(timeout=PATIENCE_MS)
    page.get_by_role("link", name="Open").first.click()
    page.wait_for_selector(MAP, timeout=60_000)


def settle(page) -> None:
    page.wait_for_timeout(SETTLE_MS)
    page.wait_for_selector(MAP, timeout=30_000)


def hover(page, across: float, down: float) -> tuple[int, int, float]:
    """Query, key and weight that the viewer reads out at a place of its canvas."""
    box = page.locator(".hw-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * down)
    settle(page)
    words = page.locator(".hw-readout").text_content()
    found = CELL.search(words)
    assert found, f"no weight in the readout: {words!r}"
    return int(found[1]), int(found[2]), float(found[3])


def test_a_prompt_becomes_a_link_that_shows_exact_weights(page, chromium, address, eager_map):
    assert len(eager_map) >= 1000
    run_prompt(page, address, PROMPT)
    page.goto(re.sub(r"[&?](layer|head)=\d+", "", page.url) + f"&layer={LAYER}&head={HEAD}")
    page.wait_for_selector(MAP, timeout=60_000)

    box = page.locator(".hw-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.6)
    for _ in range(14):
        page.mouse.wheel(0, -240)
        page.wait_for_timeout(40)
    settle(page)
    assert page.locator(".hw-viewer").get_attribute("data-level") == "0"  # exact weights, not pooled ones

    for across, down in ((0.5, 0.6), (0.42, 0.7), (0.6, 0.8)):
        query, key, weight = hover(page, across, down)
        assert key <= query
        assert weight == pytest.approx(eager_map[query, key].item(), abs=2e-3, rel=0)  # the codec's bound
        assert weight == pytest.approx(eager_map[query, key].item(), rel=0.05, abs=1e-6)

    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.wait_for_function("() => location.search.includes('rows=')")
    page.get_by_role("button", name="Copy the link to this view").click()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    page.goto(link)  # an address holds whole rows and columns, the view dragged a moment ago held parts of them
    page.wait_for_selector(MAP, timeout=60_000)
    settle(page)
    seen = hover(page, 0.5, 0.6)

    other = chromium.new_context(viewport={"width": 1280, "height": 720})
    try:
        colleague = other.new_page()
        colleague.goto(link)
        colleague.wait_for_selector(MAP, timeout=60_000)
        settle(colleague)
        query, key, weight = hover(colleague, 0.5, 0.6)
        assert (query, key, weight) == seen
        assert weight == pytest.approx(eager_map[query, key].item(), rel=0.05, abs=1e-6)
        assert colleague.get_by_label("Layer (0 to 29)").input_value() == str(LAYER)
    finally:
        other.close()


@pytest.mark.parametrize("text", ["", "   \n"])
def test_a_blank_prompt_cannot_be_run(page, address, text):
    page.goto(address)
    page.get_by_label("Text", exact=True).last.fill(text)
    page.wait_for_timeout(SETTLE_MS)
    assert page.get_by_role("button", name="Run", exact=True).is_disabled()


def test_case_37_hostile_text_is_shown_and_not_run(page, address):
    hostile = (
        'Pay $5 or $6, **x**, :red[y] a<b & "q" <img src=x onerror="window.hacked=1"> <script>window.hacked=1</script>'
    )
    run_prompt(page, address, hostile)
    settle(page)
    assert page.evaluate("window.hacked") is None
    shown = page.locator(".hw-text").inner_text().replace("·", " ")
    assert "<img src=x" in shown.replace("\n", "")
    assert "**x**" in shown.replace("\n", "")


def test_case_87_a_clean_start_logs_no_stack_trace(page, tmp_path):
    with serve(tmp_path) as url:
        page.goto(f"{url}/heads?analysis=bundled-story")
        page.wait_for_selector(MAP, timeout=PATIENCE_MS)  # the script ran, and torch with it
        words = (tmp_path / "server.log").read_text()
        page.goto("about:blank")  # or the page would call for a server that has ended
    assert "Traceback" not in words
    assert "torch.classes" not in words

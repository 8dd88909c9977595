"""From a link to the first picture, against an empty Streamlit page in the same run; and one zoom step at the server.

    python -m benchmarks.pages [tokens]

A 2,048-token analysis of SmolLM2 is made first (about a minute). Each figure is the median of five; the empty page and
the link are opened in turn, each in a fresh browser context.
"""

from __future__ import annotations

import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median

from backend.models import load
from backend.pipeline import analyse
from backend.store import Library
from tools.app_server import CHROMIUM, CHROMIUM_FLAGS, serve

ROUNDS = 5
PARAGRAPH = "The river rose in the night and the mill stood dark above it while the miller counted sacks by lamplight. "


def seconds_to(page, address: str, selector: str) -> float:
    """From navigation to the moment `selector` is on the page."""
    start = time.perf_counter()
    page.goto(address)
    page.wait_for_selector(selector, timeout=60_000)
    return time.perf_counter() - start


def fresh(browser, address: str, selector: str) -> float:
    """The same in a browser that has never seen the app."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    try:
        return seconds_to(context.new_page(), address, selector)
    finally:
        context.close()


def first_pictures(link: str, empty: str) -> tuple[list[float], list[float]]:
    """Seconds of the link and of the empty page, in turn."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        pairs = []
        for _ in range(ROUNDS + 1):  # the first pair warms the servers
            plain = fresh(browser, empty, "[data-testid=stMarkdown]")
            pairs.append((fresh(browser, link, ".hw-viewer[data-state=ready]"), plain))
        browser.close()
    return [pair[0] for pair in pairs[1:]], [pair[1] for pair in pairs[1:]]


def zoom_steps(url: str, name: str, tokens: int) -> list[float]:
    """Seconds of exact 256 x 256 windows, no two of them the same."""
    taken = []
    for step in range(40):
        row = tokens // 2 + (step * 97) % (tokens // 2 - 256)
        column = (step * 61) % (row - 1)
        query = f"rows={row}:{row + 256}&columns={column}:{min(column + 256, tokens)}&size=256"
        start = time.perf_counter()
        with urllib.request.urlopen(f"{url}/data/{name}/map/self/{step % 30}/{step % 9}?{query}") as answer:
            answer.read()
        taken.append(time.perf_counter() - start)
    return sorted(taken)


def main(tokens: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        model = load("smollm2-135m-instruct")
        ids = (model.tokenizer.encode(PARAGRAPH) * (tokens // 10))[:tokens]
        name = analyse(model, ids, library=Library(data)).id
        script = data / "empty.py"
        script.write_text("import streamlit as st\nst.write('empty')\n")
        with serve(data) as url, serve(data, script=script, log=data / "empty.log") as empty:
            link, plain = first_pictures(f"{url}/heads?analysis={name}", empty)
            steps = zoom_steps(url, name, tokens)
    difference = median(a - b for a, b in zip(link, plain, strict=True))
    print(f"{tokens} tokens, medians of {ROUNDS}")
    print(f"link to first picture      {median(link):6.2f} s")
    print(f"empty Streamlit page       {median(plain):6.2f} s")
    print(f"difference, pair by pair   {difference:6.2f} s   goal 1.0 s")
    print(
        f"256 x 256 exact window     {median(steps) * 1e3:6.0f} ms   p95 {steps[int(len(steps) * 0.95)] * 1e3:.0f} ms"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2048)

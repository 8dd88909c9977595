"""The page of heads in a real browser: first picture, head switches, zoom, drag, bytes, memory; BertViz's bytes beside.

    python -m benchmarks.pages [tokens] [--quick]

2,048 tokens are an analysis of SmolLM2 (made first, about a minute); any other number one of a tiny random model. Each
figure is the median of several; an empty Streamlit page and the link are opened in turn, each in a fresh context.
--quick leaves out the 200 head switches and BertViz. The load of the machine is printed with the figures.
"""

from __future__ import annotations

import os
import sys
import tempfile
import urllib.request
from pathlib import Path
from statistics import median

from backend.models import LoadedModel, load
from backend.pipeline import analyse
from backend.store import Library
from benchmarks.browser import Tab, renderer_megabytes
from tools.app_server import CHROMIUM, CHROMIUM_FLAGS, serve

ROUNDS = 7
SNAKE = "RRRDLLLDR"  # keys of head switches, every head a new one: right, down, left
ARROWS = {"R": "ArrowRight", "D": "ArrowDown", "L": "ArrowLeft"}
FEW, MANY = 20, 200  # head switches between which memory is compared
PARAGRAPH = "The river rose in the night and the mill stood dark above it while the miller counted sacks by lamplight. "
READY = ".hw-viewer[data-state=ready]"
EMPTY = "[data-testid=stMarkdown]"


def stored(library: Library, tokens: int) -> str:
    """An analysis with exact maps for all heads; its id."""
    if tokens == 2048:
        model = load("smollm2-135m-instruct")
        return analyse(model, (model.tokenizer.encode(PARAGRAPH) * (tokens // 10))[:tokens], library=library).id
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = LlamaConfig(
        vocab_size=256, num_key_value_heads=2, max_position_embeddings=tokens, initializer_range=0.5, **sizes
    )
    model = LoadedModel.wrap(LlamaForCausalLM(config).eval(), name="tiny")
    return analyse(model, torch.randint(0, 256, (tokens,)).tolist(), library=library).id


def first_pictures(browser, link: str, empty: str) -> None:
    """The link against the empty page, pair by pair; bytes of both."""
    pairs, grids, sizes, work = [], [], [], []
    for number in range(ROUNDS + 1):  # the first pair warms the servers
        with Tab(browser) as plain:
            base = plain.open(empty, EMPTY)
            base_work = plain.busy()
            plain.settle(EMPTY)
        with Tab(browser) as tab:
            seconds = tab.open(link, READY)
            page_work = tab.busy()
            grid = max(seconds, tab.when("grid"))
            tab.settle(READY)
        if number:
            pairs.append((seconds, base))
            grids.append(grid - base)
            sizes.append((tab.bytes - plain.bytes) / 1e6)
            work.append(page_work - base_work)
    beyond = [seconds - base for seconds, base in pairs]
    show("link to finished first picture", f"{median(one for one, _ in pairs):.2f} s")
    show("empty Streamlit page", f"{median(base for _, base in pairs):.2f} s")
    show("picture beyond the empty page", f"{median(beyond):.2f} s (least {min(beyond):.2f})", "0.8 s")
    show("the same in processor time of the page", f"{median(work):.2f} s")
    show("grid in sight, beyond the empty page", f"{median(grids):.2f} s", "1.2 s")
    show("bytes beyond the empty page", f"{median(sizes):.2f} MB", "1.5 MB")


def gestures(browser, link: str) -> None:
    """Head switches, zoom steps and a drag in one tab."""
    with Tab(browser) as tab:
        tab.open(link, READY)
        tab.settle(READY)
        firsts, switches, sizes = [], [], []
        for step in SNAKE:
            before = tab.bytes
            first, whole = tab.measure(lambda step=step: tab.page.keyboard.press(ARROWS[step]), new_head=True)
            tab.settle(READY)
            firsts.append(first)
            switches.append(whole)
            sizes.append((tab.bytes - before) / 1e3)
        show("head switch, finished", f"{median(switches):.0f} ms (first pixels {median(firsts):.0f})", "400 ms")
        show("bytes of a head switch", f"{median(sizes):.0f} KB", "300 KB")
        tab.page.mouse.move(*tab.in_map(0.3, 0.7))
        steps = []
        for turn in (-400, -400, -400, -400, 400, 400, -400, -400):
            steps.append(tab.measure(lambda turn=turn: tab.page.mouse.wheel(0, turn)))
            tab.settle(READY)
        show("zoom, first pixels", f"{median(first for first, _ in steps):.0f} ms", "100 ms")
        show("zoom, finished", f"{median(whole for _, whole in steps):.0f} ms", "300 ms")
        frames, worst, work = tab.drag()
        show("frames while dragging", f"{frames:.0f} per s (longest {worst:.0f} ms)", "60 per s")
        show("processor time of such a frame", f"{work:.1f} ms", "16 ms")


def memory(browser, link: str) -> None:
    """What the browser holds after few and after many head switches."""
    with Tab(browser) as tab:
        tab.open(link, READY)
        held = []
        for number in range(1, MANY + 1):
            key = ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowDown", "ArrowRight", "ArrowUp")[number % 6]
            tab.page.keyboard.press(key)
            tab.page.wait_for_timeout(250)
            if number in (FEW, MANY):
                tab.settle(READY)
                held.append((tab.heap_megabytes(), renderer_megabytes()))
    (heap, whole), (later_heap, later_whole) = held
    show(f"heap of the page, {MANY} over {FEW} switches", f"{later_heap:.1f} / {heap:.1f} MB", "1.2 x")
    show(f"renderer process, {MANY} over {FEW} switches", f"{later_whole:.0f} / {whole:.0f} MB", "1.2 x")


def windows(url: str, name: str, tokens: int) -> None:
    """Exact 256 x 256 windows at the server, no two of them the same."""
    import time

    taken = []
    for step in range(40):
        row = tokens // 2 + (step * 97) % (tokens // 2 - 256)
        column = (step * 61) % (row - 1)
        query = f"rows={row}:{row + 256}&columns={column}:{min(column + 256, tokens)}&size=256"
        start = time.perf_counter()
        with urllib.request.urlopen(f"{url}/data/{name}/map/self/{step % 3}/{step % 4}?{query}") as answer:
            answer.read()
        taken.append((time.perf_counter() - start) * 1e3)
    taken.sort()
    show("256 x 256 exact window at the server", f"{median(taken):.0f} ms, p95 {taken[int(len(taken) * 0.95)]:.0f} ms")


def bertviz() -> None:
    """Bytes of BertViz's head view of 12 x 12 heads."""
    import torch
    from bertviz import head_view

    for tokens in (64, 256):
        maps = [torch.rand(1, 12, tokens, tokens).softmax(-1) for _ in range(12)]
        page = head_view(maps, [f"t{i}" for i in range(tokens)], html_action="return").data
        show(f"BertViz head view, {tokens} tokens, 12 x 12", f"{len(page.encode()) / 1e6:.1f} MB")


def show(what: str, value: str, goal: str = "") -> None:
    print(f"{what:42}{value:38}{f'goal {goal}' if goal else ''}", flush=True)


def main(tokens: int, quick: bool) -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        data = Path(folder)
        name = stored(Library(data), tokens)
        script = data / "empty.py"
        script.write_text("import streamlit as st\nst.write('empty')\n")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        with serve(data) as url, serve(data, script=script, log=data / "empty.log") as empty:
            link = f"{url}/heads?analysis={name}"
            print(f"{tokens} tokens, load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, at the start", flush=True)
            first_pictures(browser, link, empty)
            gestures(browser, link)
            windows(url, name, tokens)
            if not quick:
                memory(browser, link)
        browser.close()
    if not quick:
        bertviz()
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:] if text.isdecimal()]
    main(numbers[0] if numbers else 2048, "--quick" in sys.argv)

"""A browser tab that is measured: when things are on the screen, what came over the wire, what is held in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

LEFT, TOP, SIDES = 92, 76, 102  # margins of the map, as in axes.js
# Runs before the page: sees into components, times every drawing of a map, and the pictures of the grid in sight.
WATCH = """(() => {
  const roots = [document];
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (how) {
    const root = attach.call(this, how);
    roots.push(root);
    return root;
  };
  const all = (selector) => roots.flatMap((root) => [...root.querySelectorAll(selector)]);
  const times = (window.times = { drawn: [], frames: [] });
  const draw = CanvasRenderingContext2D.prototype.drawImage;
  CanvasRenderingContext2D.prototype.drawImage = function (...what) {
    if (this.canvas.className === "hw-canvas") times.drawn.push(performance.now());
    return draw.apply(this, what);
  };
  const painted = () => {
    const scroll = all(".hg-scroll")[0]?.getBoundingClientRect();
    const seen = (one) => one.bottom > scroll.top && one.top < Math.min(scroll.bottom, innerHeight);
    const pictures = all(".hg-picture").filter((one) => seen(one.parentElement.getBoundingClientRect()));
    return pictures.length > 0 && pictures.every((one) => one.src && one.complete);
  };
  const each = () => {
    const now = performance.now();
    times.frames.push(now);
    if (times.frames.length > 2000) times.frames.splice(0, 1000);
    if (times.drawn.length > 2000) times.drawn.splice(0, 1000);
    if (!times.grid && painted()) times.grid = now;
    const viewer = all(".hw-viewer")[0];
    if (times.start && viewer && viewer.dataset.state === "ready" && !times.whole) {
      const drawn = times.drawn.some((at) => at > times.start);
      if (times.head === undefined ? drawn : viewer.dataset.head !== times.head) times.whole = now;
    }
    requestAnimationFrame(each);
  };
  requestAnimationFrame(each);
  window.measureFrom = (newHead) => {
    Object.assign(times, { start: performance.now(), whole: 0, drawn: [] });
    times.head = newHead ? all(".hw-viewer")[0].dataset.head : undefined;
  };
})()"""


class Tab:
    """A tab of its own context, at 1280 x 720, closed at the end."""

    def __init__(self, browser) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 720})
        self.page = self.context.new_page()
        self.session = self.context.new_cdp_session(self.page)
        self.bytes = 0  # that came over the wire, WebSocket included
        self.session.on("Network.loadingFinished", lambda event: self._count(event["encodedDataLength"]))
        self.session.on("Network.webSocketFrameReceived", lambda event: self._count(_payload(event["response"])))
        self.session.send("Network.enable")
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.add_init_script(WATCH)

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, *error: object) -> None:
        self.context.close()

    def _count(self, number: float) -> None:
        self.bytes += number

    def open(self, address: str, selector: str) -> float:
        """Seconds from the navigation to the moment `selector` is on the page, by the clock of the page."""
        self.page.goto(address)
        self.page.wait_for_selector(selector, timeout=120_000)
        return self.page.evaluate("performance.now()") / 1e3

    def when(self, name: str) -> float:
        """Seconds from the navigation to an event that the page noted."""
        self.page.wait_for_function(f"window.times.{name} > 0", timeout=60_000)
        return self.page.evaluate(f"window.times.{name}") / 1e3

    def settle(self, selector: str) -> None:
        """Until nothing more is under way."""
        self.page.wait_for_timeout(900)
        self.page.wait_for_selector(selector, timeout=60_000)

    def measure(self, act: Callable[[], None], *, new_head: bool = False) -> tuple[float, float]:
        """Milliseconds to the first drawing after `act`, and to the finished picture."""
        self.page.evaluate("newHead => window.measureFrom(newHead)", new_head)
        act()
        self.page.wait_for_function("window.times.whole > 0", timeout=60_000)
        start, first, whole = self.page.evaluate(
            "[times.start, times.drawn.find((at) => at > times.start), times.whole]"
        )
        return first - start, whole - start

    def in_map(self, across: float, down: float) -> tuple[float, float]:
        """A place of the map, as shares of its sides, on the page."""
        box = self.page.locator(".hw-over").first.bounding_box()
        side = box["width"] - SIDES
        return box["x"] + LEFT + across * side, box["y"] + TOP + down * side

    def drag(self) -> tuple[float, float, float]:
        """While the map is dragged there and back: drawings per second, the longest time between two frames, and
        processor time per drawing in milliseconds."""
        mouse = self.page.mouse
        mouse.move(*self.in_map(0.5, 0.5))
        mouse.down()
        self.page.evaluate("window.measureFrom(false); times.frames = []")
        busy = self.busy()
        for step in range(160):
            angle = step / 12
            mouse.move(*self.in_map(0.5 + 0.2 * math.sin(angle), 0.5 + 0.2 * math.sin(angle / 2)))
        frames, drawn = self.page.evaluate("[times.frames, [...new Set(times.drawn.map((at) => Math.round(at)))]]")
        busy = self.busy() - busy
        mouse.up()
        gaps = [later - earlier for earlier, later in pairwise(frames)]
        drawings = sum(1 for a, b in pairwise(drawn) if b - a > 4) + 1
        return drawings / ((drawn[-1] - drawn[0]) / 1e3), max(gaps), busy / drawings * 1e3

    def heap_megabytes(self) -> float:
        """Scripts' memory after a collection."""
        self.session.send("HeapProfiler.collectGarbage")
        return self._metric("JSHeapUsedSize") / 1e6

    def busy(self) -> float:
        """Processor seconds of the page's main thread so far: what other programs do beside it does not count."""
        return self._metric("TaskDuration")

    def _metric(self, name: str) -> float:
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == name)


def renderer_megabytes() -> float:
    """Resident memory of the largest renderer among the processes that this one started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" in (folder / "cmdline").read_bytes() and _started_here(int(folder.name)):
                resident = (folder / "statm").read_text().split()[1]
                found.append(int(resident) * os.sysconf("SC_PAGE_SIZE") / 1e6)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return max(found, default=math.nan)


def _started_here(process: int) -> bool:
    while process > 1:
        if process == os.getpid():
            return True
        process = int((Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[1])
    return False


def _payload(frame: dict) -> int:
    """Bytes of a WebSocket frame; binary ones are told in base64."""
    return len(frame["payloadData"]) * (3 if frame["opcode"] == 2 else 4) // 4

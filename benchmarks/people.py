"""Many people reading at once: sessions over Streamlit's own websocket, one action each every few seconds.

    python -m benchmarks.people                       50 sessions, 60 s, an action every 10 s
    python -m benchmarks.people --sessions 10 --seconds 20
    python -m benchmarks.people --sessions 5 --beside 4000      while SmolLM2 reads 4,000 tokens for somebody else

Each session opens the page of heads on a stored analysis and then goes from head to head, as a click does. Measured is
the time from the request to the end of the script's run; beside it the server's memory before, during and after. As a
browser does, a session fetches the map that it is shown and says that it is painted; then the page goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import statistics
import tempfile
import time
from pathlib import Path

import psutil
import websockets
from playwright.sync_api import sync_playwright
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from backend.store import AnalysisWriter, Library
from benchmarks.classroom import fetch, viewer_of
from benchmarks.store import record, run_of
from tools.app_server import CHROMIUM, CHROMIUM_FLAGS, serve

PAGES = ("heads", "heads", "heads", "sinks", "sql")  # what people look at
LAYERS, TOKENS, ANALYSES = 6, 128, 8
WORDS_PER_TOKEN = 0.95  # of the text that is read beside them
PATIENCE = 60.0  # seconds for one action


class Session:
    """One browser tab, as far as the server can tell."""

    def __init__(self, address: str, ids: list[str], seed: int) -> None:
        self.url = address
        self.address = address.replace("http", "ws", 1) + "/_stcore/stream"
        self.random = random.Random(seed)
        self.ids = ids
        self.times: list[float] = []
        self.errors: list[str] = []

    async def stay(self, seconds: float, every: float) -> None:
        """Opens a page and acts until the time is over, the first action at a time of its own."""
        await asyncio.sleep(self.random.uniform(0, every))
        end = time.monotonic() + seconds
        async with websockets.connect(self.address, subprotocols=["streamlit"], max_size=None) as socket:
            await self.act(socket, first=True)
            while time.monotonic() + every < end:
                await asyncio.sleep(every * self.random.uniform(0.8, 1.2))
                await self.act(socket)

    async def act(self, socket, *, first: bool = False) -> None:
        """Asks for another view and waits until it is drawn."""
        message = BackMsg()
        layer, head = self.random.randrange(LAYERS), self.random.randrange(9)
        message.rerun_script.query_string = f"analysis={self.random.choice(self.ids)}&layer={layer}&head={head}"
        message.rerun_script.page_name = self.random.choice(PAGES)
        start, painting = time.perf_counter(), None
        await socket.send(message.SerializeToString())
        while True:
            answer = ForwardMsg()
            answer.ParseFromString(await asyncio.wait_for(socket.recv(), PATIENCE))
            kind = answer.WhichOneof("type")
            if (map := viewer_of(answer)) is not None:
                painting = asyncio.create_task(asyncio.to_thread(self.paint, map))
            if kind == "delta" and answer.delta.new_element.WhichOneof("type") == "exception":
                self.errors.append(answer.delta.new_element.exception.message[:200])
            if kind == "script_finished":
                break
        taken = time.perf_counter() - start
        if painting is not None:
            await painting
        if not first:
            self.times.append(taken)

    def paint(self, map: dict) -> None:
        """What a browser does with the map of a page: it fetches the weights and says when they are on the screen."""
        rows, columns = map["shape"]
        fetch(f"{self.url}/{map['map']}?rows=0:{rows}&columns=0:{columns}&size=256&how=mean")
        fetch(f"{self.url}/data/painted/{map['painted']}")


async def crowd(sessions: list[Session], seconds: float, every: float, memory: list[float], server) -> None:
    """All sessions at once, the server's memory looked at every second."""
    people = [asyncio.create_task(session.stay(seconds, every)) for session in sessions]
    while not all(task.done() for task in people):
        memory.append(resident(server))
        await asyncio.sleep(1)
    for task in people:
        task.result()


def resident(process: psutil.Process) -> float:
    """MB."""
    return process.memory_info().rss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=10)
    parser.add_argument("--beside", type=int, default=0, help="tokens of a run that goes on in the meantime")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = Library(folder)
        ids = []
        for seed in range(ANALYSES):
            with AnalysisWriter(library) as writer:
                for layer in range(LAYERS):
                    writer.layer(record(layer, TOKENS, seed))
                ids.append(writer.publish(run_of(TOKENS, seed)))
        with serve(Path(folder)) as address:
            server = psutil.Process().children()[-1]
            alone = [Session(address, ids, seed) for seed in range(2)]
            asyncio.run(crowd(alone, 10, 3, [], server))
            before, during = resident(server), []
            if asked.beside:
                start_run(address, asked.beside)
            sessions = [Session(address, ids, 100 + seed) for seed in range(asked.sessions)]
            asyncio.run(crowd(sessions, asked.seconds, asked.every, during, server))
            time.sleep(15)
            after = resident(server)
    report(asked, sessions, before, max(during), after)


def start_run(address: str, tokens: int) -> None:
    """Somebody else pastes a long text on the first page, presses Run and closes the tab; the run goes on."""
    text = "The river rose in the night and the mill stood dark above it while the miller counted sacks. " * tokens
    text = " ".join(text.split()[: round(tokens * WORDS_PER_TOKEN)])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        page = browser.new_page()
        page.goto(address)
        page.get_by_label("Text", exact=True).last.fill(text)
        plan = page.get_by_text(re.compile(r"^[\d,]+ tokens · about"))
        plan.wait_for(timeout=120_000)
        print("beside it:", plan.first.text_content(), flush=True)
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_text(re.compile("Reading: layer")).wait_for(timeout=120_000)
        browser.close()


def report(asked, sessions: list[Session], before: float, most: float, after: float) -> None:
    times = sorted(time for session in sessions for time in session.times)
    errors = [error for session in sessions for error in session.errors]
    p95 = times[int(0.95 * (len(times) - 1))]
    load = psutil.getloadavg()[0]
    print(
        f"{asked.sessions} sessions, an action every {asked.every:.0f} s each, {asked.seconds:.0f} s; load {load:.1f}"
    )
    print(
        f"  page updates           {len(times)}, median {statistics.median(times):.2f} s, "
        f"p95 {p95:.2f} s (at most 1.5), longest {times[-1]:.2f} s"
    )
    print(f"  errors                 {len(errors)}{': ' + errors[0] if errors else ''}")
    print(f"  memory of the server   {before:.0f} MB before, {most:.0f} at most, {after:.0f} after they left")


if __name__ == "__main__":
    main()

"""A classroom opens one link at once: thirty websocket clients, and when each of them has its first picture.

    python -m benchmarks.classroom [people] [lesson]

Each client does what a browser does: it opens the stream of the page, asks for the page of the link, reads what the
page sends until the map's place is there, then fetches the map and its tokens from the data routes. What the browser
itself takes to draw is not in the figures (benchmarks/pages.py measures it). That runs are served in turn is tested in
tests/backend/test_jobs.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

from tools.app_server import serve

GOAL = 3.0  # seconds to each first picture
VIEWER = "headwater_map_viewer"


@dataclass(frozen=True)
class Visit:
    """Seconds since the link was opened."""

    page: float  # the map's place is on the page
    picture: float  # its weights and tokens have arrived
    megabytes: float  # what came over the stream


async def visit(url: str, query: str) -> Visit:
    """One person opens the link."""
    start, size, told = time.perf_counter(), 0, None
    stream = f"{url.replace('http', 'ws', 1)}/_stcore/stream"
    async with connect(stream, subprotocols=["streamlit"], max_size=None, open_timeout=60) as socket:
        await socket.send(rerun(query))
        while told is None:
            message = await asyncio.wait_for(socket.recv(), 60)
            size += len(message)
            told = viewer_of(ForwardMsg.FromString(message))
        page = time.perf_counter() - start
        rows, columns = told["shape"]
        paths = [f"{told['map']}?rows=0:{rows}&columns=0:{columns}&size=256&how=mean", told["tokens"]]
        await asyncio.gather(*(asyncio.to_thread(fetch, f"{url}/{path}") for path in paths))
    return Visit(page, time.perf_counter() - start, size / 1e6)


def rerun(query: str) -> bytes:
    """What a browser sends first."""
    message = BackMsg()
    message.rerun_script.query_string = query
    message.rerun_script.page_name = "lessons"
    return message.SerializeToString()


def viewer_of(message: ForwardMsg) -> dict | None:
    """What the map viewer is told, once the page sends it."""
    if message.WhichOneof("type") != "delta" or not message.delta.HasField("new_element"):
        return None
    element = message.delta.new_element
    if element.WhichOneof("type") != "bidi_component" or element.bidi_component.component_name != VIEWER:
        return None
    component = element.bidi_component
    return json.loads(component.json or component.mixed.json)


def fetch(address: str) -> int:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return len(answer.read())


async def classroom(url: str, people: int, query: str) -> list[Visit]:
    """All of them at once."""
    return await asyncio.gather(*(visit(url, query) for _ in range(people)))


def report(name: str, values: list[float], goal: float | None = None) -> None:
    """Median, slowest, and how many reached the goal."""
    reached = "" if goal is None else f"   {sum(v <= goal for v in values)} of {len(values)} within {goal:.0f} s"
    print(f"{name:<28} median {median(values):6.2f} s   slowest {max(values):6.2f} s{reached}")


def main(people: int, lesson: str) -> None:
    query = f"lesson={lesson}"
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as url:
        alone = asyncio.run(visit(url, query))  # the first visitor pays for imports
        alone = asyncio.run(visit(url, query))
        visits = asyncio.run(classroom(url, people, query))
    print(f"{people} people, lesson {lesson}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    report("one alone, first picture", [alone.picture])
    report("at once, map's place there", [one.page for one in visits])
    report("at once, first picture", [one.picture for one in visits], GOAL)
    print(f"over the stream, each        {median(one.megabytes for one in visits):6.2f} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30, sys.argv[2] if len(sys.argv) > 2 else "reading_a_map")

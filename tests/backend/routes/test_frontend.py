"""Streamlit's scripts come packed and are named by the page; answers leave at once."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient

from backend.routes.frontend import LATER, PARTS, Frontend, needed
from backend.routes.prompt import prompt_answers, tcp_sockets

STATIC = Path(importlib.util.find_spec("streamlit").submodule_search_locations[0]) / "static"


@pytest.fixture(scope="module")
def client():
    """The middleware in front of Streamlit's own files, as under a path prefix; one page that is not found."""
    routes = [
        Route("/lost", lambda request: HTMLResponse("<head></head>", status_code=404)),
        Mount("/tools/attention", StaticFiles(directory=STATIC, html=True)),
    ]
    app = Frontend(Starlette(routes=routes), STATIC)
    app.packing.join(60)
    return TestClient(app)


def test_every_part_is_found_with_all_that_it_imports():
    for part in (*PARTS, *LATER):
        names = needed(STATIC / "static", [part])
        assert any(name.startswith(f"js/{part}.") for name in names), f"Streamlit has no part {part} any more"
        assert all((STATIC / "static" / name).is_file() for name in names)


def test_a_page_names_its_parts_once_each_and_says_its_length(client):
    plain = (STATIC / "index.html").read_text("utf-8")
    answer = client.get("/tools/attention/")
    assert int(answer.headers["content-length"]) == len(answer.content)
    at = next(at for at, (a, b) in enumerate(zip(plain, answer.text, strict=False)) if a != b)
    more = len(answer.text) - len(plain)
    assert answer.text[:at] + answer.text[at + more :] == plain, "nothing of the page itself changes"
    links = re.findall(r'href="\./(static/js/[^"]+)">', answer.text)
    assert len(links) == len(set(links)) and any("BidiComponent" in link for link in links)
    assert all(client.get(f"/tools/attention/{link}").status_code == 200 for link in links)


def test_a_script_is_the_same_packed_and_plain(client):
    name = next(name for name in needed(STATIC / "static", PARTS) if "BidiComponent" in name)
    there = (STATIC / "static" / name).read_bytes()
    packed = client.get(f"/tools/attention/static/{name}", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and "immutable" in packed.headers["cache-control"]
    assert packed.content == there and int(packed.headers["content-length"]) < len(there)
    plain = client.get(f"/tools/attention/static/{name}", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.content == there
    part = client.get(f"/tools/attention/static/{name}", headers={"accept-encoding": "gzip", "range": "bytes=0-9"})
    assert part.status_code == 206 and part.content == there[:10]


def test_other_answers_pass_untouched(client):
    assert client.get("/lost").text == "<head></head>"
    assert client.get("/tools/attention/static/js/none.js").status_code == 404
    assert client.get("/tools/attention/favicon.png").content == (STATIC / "favicon.png").read_bytes()


def test_connections_of_the_listening_socket_send_at_once():
    async def between() -> int:
        async with prompt_answers(None):
            return server.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    with socket.socket() as server:  # as Streamlit makes it, with no protocol named: asyncio leaves such a one alone
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        with ThreadPoolExecutor(1) as beside:  # a browser test before this one leaves its event loop in this thread
            assert beside.submit(asyncio.run, between()).result() != 0
        with socket.create_connection(server.getsockname()), server.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_what_is_no_tcp_socket_is_left_alone(tmp_path):
    with (tmp_path / "file").open("w"), socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        assert datagrams.getsockname() not in [found.getsockname() for found in tcp_sockets()]

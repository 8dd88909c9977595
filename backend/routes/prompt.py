"""Answers leave the server at once.

The server's listening socket has Nagle's algorithm on: the second piece of an answer waits until the browser has
acknowledged the first, which takes it 40 ms. A page is a hundred answers, each a head and a body. Connections inherit
TCP_NODELAY from the socket that accepts them, so it is set there.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

OPEN_FILES = (Path("/proc/self/fd"), Path("/dev/fd"))  # Linux; macOS and the BSDs


@asynccontextmanager
async def prompt_answers(app: object) -> AsyncIterator[None]:
    """The lifespan of the app: it begins once the socket is bound and before a browser is let in."""
    for found in tcp_sockets():
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    yield


def tcp_sockets() -> Iterator[socket.socket]:
    """The TCP sockets that this process has open, each as long as it is looked at. Windows lists none."""
    folder = next((folder for folder in OPEN_FILES if folder.is_dir()), None)
    for number in [int(path.name) for path in folder.iterdir()] if folder else ():
        with suppress(OSError):  # no socket, or closed since the list was made
            with socket.socket(fileno=os.dup(number)) as found:
                if found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM:
                    yield found

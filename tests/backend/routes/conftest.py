"""A library with a few stored analyses, served by the real routes, asked through an ASGI client."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from backend.routes import routes
from backend.shelf import OWNER_COOKIE, Shelf
from tests.stored import HOSTILE, store


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    shelf = Shelf(folder, tmp_path_factory.mktemp("bundled"))
    ids = SimpleNamespace(
        plain=store(folder, text=HOSTILE, n_tokens=40),
        pooled_only=store(folder, exact=(), n_tokens=40),
        private=store(folder, visibility="private", owner="a" * 32),
        layers_3_7=store(folder, layers=(3, 7)),
    )
    client = TestClient(Starlette(routes=routes(shelf.open, ("", "/tools/attention"))))
    return SimpleNamespace(client=client, shelf=shelf, ids=ids, folder=folder, owner={OWNER_COOKIE: "a" * 32})


@pytest.fixture
def decode():
    """The answer of the map route as header, values, visible."""

    def read(content: bytes) -> tuple[dict, np.ndarray, np.ndarray]:
        line, _, rest = content.partition(b"\n")
        header = json.loads(line)
        height, width = header["shape"]
        number = np.dtype("<f4") if header["dtype"] == "float32" else np.dtype("<f2")
        n_bytes = height * width * number.itemsize
        values = np.frombuffer(rest[:n_bytes], number).reshape(height, width)
        bits = np.unpackbits(np.frombuffer(rest[n_bytes:], np.uint8), count=height * width)
        assert len(rest) == n_bytes + (height * width + 7) // 8
        return header, values, bits.reshape(height, width).astype(bool)

    return read

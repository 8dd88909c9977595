"""Streamlit's own scripts, sooner in the browser: packed, from memory, and asked for with the page itself.

Left alone, a browser learns which parts of Streamlit a page is made of only when the page's first elements reach it,
and then fetches a hundred small files, unpacked, from threads that compete with the page's own script. Here the page's
HTML already names those parts, and their files are kept packed in memory.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from pathlib import Path
from threading import Thread

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Parts of Streamlit that every page of ours draws; their file names begin so.
PARTS = ("BidiComponent", "PageLink", "Html", "Selectbox", "NumberInput")
LATER = ("ArrowVegaLiteChart",)  # kept packed too, but not asked for before the first picture
MEDIA = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
FOREVER = "public, immutable, max-age=31536000"  # the names carry a hash of what is in them
IMPORTS = re.compile(r'(?:from|import)\s*"\./([^"/]+\.js)"')
NAMED = re.compile(r"static/((?:js|css)/[^\"]+)")
PACKING = 6


class Frontend:
    """ASGI middleware in front of Streamlit's static files: `static` holds index.html and static/js, static/css."""

    def __init__(self, app: ASGIApp, static: Path) -> None:
        self.app = app
        self.files = static / "static"
        own = dict.fromkeys(NAMED.findall((static / "index.html").read_text("utf-8")))
        self.preloads = [name for name in needed(self.files, PARTS) if name not in own]
        self.packed: dict[str, bytes] = {}
        names = [*own, *self.preloads, *needed(self.files, LATER)]
        self.packing = Thread(target=self._pack, args=(names,), name="headwater-packing", daemon=True)
        self.packing.start()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        packed = self.packed.get(scope["path"].rpartition("/static/")[2])
        if packed is not None and _takes_packed(Headers(scope=scope)):
            await _answer(scope["path"], packed)(scope, receive, send)
        else:
            await self.app(scope, receive, _WithPreloads(self.preloads, send))

    def _pack(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.packed:
                self.packed[name] = gzip.compress((self.files / name).read_bytes(), PACKING, mtime=0)


class _WithPreloads:
    """Passes an answer on; an HTML page gets the preloads into its head."""

    def __init__(self, names: list[str], send: Send) -> None:
        links = "".join(f'<link rel="modulepreload" crossorigin href="./static/{name}">' for name in names)
        self.links = links.encode()
        self.send = send
        self.start: Message | None = None  # of an HTML page, held back until its body is whole
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and self._page(message):
            self.start = message
        elif message["type"] == "http.response.body" and self.start is not None:
            self.body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._whole()
        else:
            await self.send(message)

    def _page(self, start: Message) -> bool:
        headers = Headers(raw=start["headers"])
        plain = "content-encoding" not in headers
        return (
            bool(self.links) and start["status"] == 200 and plain and headers.get("content-type", "")[:9] == "text/html"
        )

    async def _whole(self) -> None:
        body = self.body.replace(b"</head>", self.links + b"</head>", 1)
        MutableHeaders(raw=self.start["headers"])["content-length"] = str(len(body))
        await self.send(self.start)
        await self.send({"type": "http.response.body", "body": body})


def needed(files: Path, parts: Iterable[str]) -> list[str]:
    """The files of some parts and of all they import, as "js/name.js"; of a part that is not there, none."""
    found: dict[str, None] = {}
    waiting = [path.name for part in parts for path in (files / "js").glob(f"{part}.*.js")]
    while waiting:
        name = waiting.pop()
        if f"js/{name}" not in found:
            found[f"js/{name}"] = None
            waiting += IMPORTS.findall((files / "js" / name).read_text("utf-8"))
    return list(found)


def _takes_packed(headers: Headers) -> bool:
    return "gzip" in headers.get("accept-encoding", "") and "range" not in headers


def _answer(path: str, packed: bytes) -> Response:
    headers = {"Content-Encoding": "gzip", "Cache-Control": FOREVER, "Vary": "Accept-Encoding"}
    return Response(packed, headers=headers, media_type=MEDIA[path[path.rindex(".") :]])

"""A small server for the viewer alone: its script on a bare page, made-up maps behind the data route's contract.

It exists so that rare cells (not a number, infinite, invisible) and rare shapes (one token, rectangles) can
be tested without a model that produces them. The page records what the viewer reports in `window.reports`.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from pages.shared.map_viewer import HERE, MapView, script

PAGE = """<!doctype html><meta charset="utf-8"><title>viewer</title><link rel="icon" href="data:,">
<style>
  :root { --st-background-color: #ffffff; --st-text-color: #31333f; --st-primary-color: #ff4b4b; }
  :root.dark { --st-background-color: #0e1117; --st-text-color: #fafafa; }
  body { margin: 0; background: var(--st-background-color); font-family: sans-serif; }
  #place { width: 900px; padding: 8px; }
</style>
<link rel="stylesheet" href="viewer.css">
<div id="place"></div>
<script type="module">
  import show from "./viewer.js";
  window.reports = [];
  const place = document.getElementById("place");
  const set = (name, value) => window.reports.push([name, value]);
  const tell = { setStateValue: set, setTriggerValue: set };
  window.show = (data) => { window.stop = show({ data, parentElement: place, ...tell }); };
</script>"""


@dataclass
class MadeMap:
    """One made-up map: weights and visibility [queries, keys], and labels."""

    weights: np.ndarray
    visible: np.ndarray
    labels: list[str] = field(default_factory=list)

    def view(self, **changes: object) -> MapView:
        values = {"analysis": "made", "kind": "self", "layer": 0, "head": 0, "exact": True, "reserve": 260, **changes}
        return MapView(shape=self.weights.shape, **values)


def pooled(values: np.ndarray, visible: np.ndarray, size: int, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean or largest of the visible cells of each block, straight from the definition."""
    edges = [np.arange(min(size, n)) * n // min(size, n) for n in values.shape]

    def over_blocks(function: np.ufunc, cells: np.ndarray) -> np.ndarray:
        return function.reduceat(function.reduceat(cells, edges[0], axis=0), edges[1], axis=1)

    counts = over_blocks(np.add, visible.astype(np.int64))
    hidden = 0.0 if how == "mean" else -np.inf
    found = over_blocks(np.add if how == "mean" else np.maximum, np.where(visible, values, hidden).astype(float))
    found = found / np.maximum(counts, 1) if how == "mean" else found
    return np.where(counts > 0, found, np.nan).astype(np.float32), counts > 0


def encode(header: dict, values: np.ndarray, visible: np.ndarray) -> bytes:
    """The body of the map route."""
    head = json.dumps({"shape": list(values.shape), "dtype": str(values.dtype), **header}).encode()
    return head + b"\n" + values.tobytes() + np.packbits(visible.reshape(-1)).tobytes()


class ViewerServer:
    """Serves one made map on a free port, on a thread of its own."""

    def __init__(self, made: MadeMap) -> None:
        self.made = made
        self.requests: list[str] = []
        routes = [
            Route("/heads", lambda request: HTMLResponse(PAGE)),
            Route("/viewer.js", lambda request: Response(script(), media_type="text/javascript")),
            Route(
                "/viewer.css", lambda request: Response((HERE / "viewer.css").read_text("utf-8"), media_type="text/css")
            ),
            Route("/data/made/tokens.json", self.tokens),
            Route("/data/made/map/self/0/{head}", self.map),
        ]
        config = uvicorn.Config(Starlette(routes=routes), host="127.0.0.1", port=0, log_level="warning")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> ViewerServer:
        self.thread.start()
        deadline = time.monotonic() + 20
        while not self.server.started:
            assert self.thread.is_alive() and time.monotonic() < deadline, "the viewer's test server did not start"
            time.sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *error: object) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=10)

    def tokens(self, request: Request) -> Response:
        labels = self.made.labels or [f"·t{index}" for index in range(max(self.made.weights.shape))]
        rows = [["self", index, label, label.replace("·", " "), index == 0] for index, label in enumerate(labels)]
        return JSONResponse({"columns": ["side", "position", "label", "text", "is_special"], "rows": rows})

    def map(self, request: Request) -> Response:
        query = request.query_params
        self.requests.append(str(request.url.query))
        (r0, r1), (c0, c1) = [[int(edge) for edge in query[name].split(":")] for name in ("rows", "columns")]
        values, visible = self.made.weights[r0:r1, c0:c1], self.made.visible[r0:r1, c0:c1]
        size, how = int(query["size"]), query["how"]
        exact = max(values.shape) <= size
        header = {"rows": [r0, r1], "columns": [c0, c1], "exact": exact, "how": "exact" if exact else how}
        if exact:
            return Response(encode(header, np.where(visible, values, 0).astype(np.float32), visible))
        values, visible = pooled(values, visible, size, how)
        return Response(encode(header, values.astype(np.float16), visible))


def causal_map(n: int, seed: int = 0, sink: float = 2.0) -> MadeMap:
    """A causal map with a sink on key 0, a previous-token stripe and noise; rows sum to 1."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, n)).astype(np.float32)
    scores[:, 0] += sink + np.log(n)
    scores[np.arange(1, n), np.arange(n - 1)] += np.log(n)
    visible = np.tril(np.ones((n, n), bool))
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return MadeMap(weights / weights.sum(-1, keepdims=True), visible)

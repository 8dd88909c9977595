"""The addresses under /data: maps, thumbnails, tables and files of analyses, for the browser and for other programs.

One file per handler. Handlers are plain functions, which the server runs in threads beside its event loop.
"""

from __future__ import annotations

import re

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from backend.routes.answers import OpenAnalysis, json_error
from backend.routes.file import file
from backend.routes.grid import grid
from backend.routes.harmless import Harmless
from backend.routes.health import health
from backend.routes.map_window import map_window
from backend.routes.painted import painted
from backend.routes.scripts import scripts
from backend.routes.tables import tables

METHODS = ["GET", "HEAD"]


def routes(open_analysis: OpenAnalysis, prefixes: tuple[str, ...] = ("",)) -> list[BaseRoute]:
    """Everything under {prefix}/data, for each prefix; what is not known there answers 404 as JSON."""
    handlers = [
        Route("/health", health, methods=METHODS),
        Route("/painted/{name}", painted, methods=METHODS),
        Route("/scripts/{name}.js", scripts, methods=METHODS),
        Route("/{id}/map/{kind}/{layer}/{head}", map_window(open_analysis), methods=METHODS),
        Route("/{id}/grid/{kind}/{layer}.png", grid(open_analysis), methods=METHODS),
        Route("/{id}/grid.png", grid(open_analysis), methods=METHODS),
        Route("/{id}/analysis.duckdb", file(open_analysis), methods=METHODS),
        Route("/{id}/{table}.{form}", tables(open_analysis), methods=METHODS),
        _anything(Route("/{rest:path}", Unknown())),
    ]
    harmless = [Middleware(Harmless)]
    mounted = [_anything(Mount(f"{prefix}/data", routes=handlers, middleware=harmless)) for prefix in prefixes]
    return [*mounted, *(Route(f"{prefix}/data", Unknown(), middleware=harmless) for prefix in prefixes)]


def _anything(route: Route | Mount) -> Route | Mount:
    """The same route, which now takes line breaks for characters of a path: else they lead out of /data."""
    route.path_regex = re.compile(route.path_regex.pattern, re.DOTALL)
    return route


class Unknown:
    """Answers what no handler does, whatever the method: an ASGI app, because for a function the methods are named."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await unknown(Request(scope))(scope, receive, send)


def unknown(request: Request) -> Response:
    """The answer for addresses that do not exist, so that no program mistakes the app's page for data."""
    if request.method not in METHODS:
        return json_error(405, f"Only GET is answered here, not {request.method[:20]}.")
    return json_error(404, "There is nothing at this address. See docs/operating.md for the addresses under /data.")

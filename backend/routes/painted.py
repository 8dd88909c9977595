"""/data/painted/{name}: the browser says that a picture is on its screen."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response

from backend.painted import painted as on_screen
from backend.routes.answers import speaks_json
from backend.routes.parameters import BadRequest, only

NAME = re.compile(r"[A-Za-z0-9_-]{16,64}")  # random, made by the page that waits for the picture


@speaks_json
def painted(request: Request) -> Response:
    """Nothing, never cached."""
    only(request.query_params, ())
    name = request.path_params["name"]
    if NAME.fullmatch(name) is None:
        raise BadRequest(f"name: expected 16 to 64 letters, digits, '-' or '_', got {name[:40]!r}.")
    on_screen.tell(name)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})

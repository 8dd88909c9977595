"""/data/health: whether the server answers, and with what."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from backend.routes.answers import speaks_json
from backend.routes.parameters import only


@speaks_json
def health(request: Request) -> Response:
    """{"ok": true}, never cached."""
    only(request.query_params, ())
    return JSONResponse({"ok": True}, headers={"Cache-Control": "no-store"})

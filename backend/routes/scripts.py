"""/data/scripts/{name}.js: scripts of installed packages, so that nothing is asked of another host."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from backend.errors import NotFound
from backend.installed_scripts import SCRIPTS, script
from backend.routes.answers import YEAR, speaks_json
from backend.routes.parameters import only


@speaks_json
def scripts(request: Request) -> Response:
    """The script; `v`, its package's version, makes the address of each version its own, so it may be kept."""
    only(request.query_params, ("v",))
    name = request.path_params["name"]
    content = script(name)
    if content is None:
        raise NotFound(f"There is no script {name[:40]!r} here; there are {', '.join(SCRIPTS)}, as far as installed.")
    lasting = f"public, max-age={YEAR}, immutable" if request.query_params.get("v") else "no-cache"
    headers = {"Cache-Control": lasting, "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type="text/javascript; charset=utf-8", headers=headers)

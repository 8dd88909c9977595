"""/data/scripts/{name}.js: scripts of installed packages, so that nothing is asked of another host, and of the pages.

Those of the pages are named with a hash of their text: a browser fetches each once, not with every run of a page.
"""

from __future__ import annotations

import gzip
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response

from backend.errors import NotFound
from backend.installed_scripts import SCRIPTS, script
from backend.routes.answers import YEAR, speaks_json, takes_gzip
from backend.routes.parameters import only
from backend.scripts import published


@speaks_json
def scripts(request: Request) -> Response:
    """The script; `v`, its package's version, makes the address of each version its own, so it may be kept."""
    only(request.query_params, ("v",))
    name = request.path_params["name"]
    if (own := published(name)) is not None:
        return _own(request, own)
    content = script(name)
    if content is None:
        raise NotFound(f"There is no script {name[:40]!r} here; there are {', '.join(SCRIPTS)}, as far as installed.")
    lasting = f"public, max-age={YEAR}, immutable" if request.query_params.get("v") else "no-cache"
    headers = {"Cache-Control": lasting, "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type="text/javascript; charset=utf-8", headers=headers)


def _own(request: Request, text: bytes) -> Response:
    headers = {"Cache-Control": f"public, max-age={YEAR}, immutable", "Vary": "Accept-Encoding"}
    if takes_gzip(request.headers.get("accept-encoding", "")):
        text, headers["Content-Encoding"] = _packed(text), "gzip"
    return Response(text, media_type="text/javascript; charset=utf-8", headers=headers)


@lru_cache(maxsize=32)
def _packed(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)

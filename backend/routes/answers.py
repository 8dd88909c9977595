"""How every data route answers: bytes that never change with their tag, or a sentence as JSON.

An analysis is immutable, so an answer is tagged by what was asked, and a browser that has it is told so before
anything is computed. Only what belongs to one person is kept out of shared caches.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import re
from collections.abc import Callable
from functools import wraps

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from backend.errors import Damaged, HeadwaterError, NewerFile, NoExactMap, NotFound
from backend.routes.owner import owner_of
from backend.routes.parameters import BadRequest
from backend.shelf import Opened
from backend.store.decoded import identity

OpenAnalysis = Callable[[str, str | None], Opened]  # id, owner -> what the owner may see; NotFound otherwise

ANSWERS_VERSION = 1  # raise when the bytes of an answer change for the same analysis
YEAR = 365 * 24 * 3600
STATUS = {BadRequest: 400, NotFound: 404, NoExactMap: 404, Damaged: 500, NewerFile: 500}
COMPRESS_FROM = 2048  # bytes
WORTH_IT = 0.85  # compressed size over plain size; above it the bytes are sent as they are
log = logging.getLogger(__name__)


def json_error(status: int, sentence: str) -> JSONResponse:
    """The one form of every refusal."""
    return JSONResponse({"error": sentence}, status_code=status, headers={"Cache-Control": "no-store"})


def speaks_json(handler: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Turns the errors that are meant for a person into their JSON form."""

    @wraps(handler)
    def answer(request: Request) -> Response:
        try:
            return handler(request)
        except HeadwaterError as error:
            status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
            if status == 500:
                log.warning("%s: %s", request.url.path, error)
            return json_error(status, str(error))

    return answer


def opened(open_analysis: OpenAnalysis, request: Request) -> Opened:
    """What the path's id names, as far as the browser that asks may see it."""
    found = open_analysis(request.path_params["id"], owner_of(request))
    request.state.file = identity(found.analysis.path)[2:]  # size and time
    request.state.lasting = not found.ships
    return found


def tag_of(request: Request) -> str:
    """The entity tag of what is asked for: path and parameters, in any order of the parameters, of this very file."""
    asked = [
        request.url.path.rpartition("/data/")[2],
        *sorted(f"{k}={v}" for k, v in request.query_params.multi_items()),
        str(request.state.file),
    ]
    return f'"{ANSWERS_VERSION}-{hashlib.sha256(chr(0).join(asked).encode()).hexdigest()[:24]}"'


def kept_already(request: Request, private: bool) -> Response | None:
    """The short answer for a browser that has these bytes; None where they must be made."""
    tags = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    same = tag_of(request) in tags or tags == ["*"]
    return Response(status_code=304, headers=caching(request, private)) if same else None


def immutable(
    request: Request, body: bytes, media_type: str, *, private: bool, filename: str | None = None, compress: bool = True
) -> Response:
    """Bytes that will never be others, compressed where that pays and the browser takes it."""
    headers = caching(request, private)
    if filename is not None:
        headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    packed = _packed(body) if compress and takes_gzip(request.headers.get("accept-encoding", "")) else None
    # The app's own compression passes by answers that name an encoding; "identity" keeps it from a second try.
    headers["Content-Encoding"] = "identity" if packed is None else "gzip"
    headers["Vary"] = "Accept-Encoding, Cookie"
    return Response(body if packed is None else packed, media_type=media_type, headers=headers)


def takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header lets gzip through: named or starred, and not with a weight of zero."""
    weights = {}
    for item in accepted.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weight = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        weights[name] = re.fullmatch(r"0(\.0*)?", weight) is None
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", False)))


def _packed(body: bytes) -> bytes | None:
    if len(body) < COMPRESS_FROM:
        return None
    packed = gzip.compress(body, compresslevel=1, mtime=0)
    return packed if len(packed) < WORTH_IT * len(body) else None


def caching(request: Request, private: bool) -> dict[str, str]:
    scope = "private" if private else "public"
    life = f"max-age={YEAR}, immutable" if request.state.lasting else "no-cache"  # the browser asks each time
    return {"Cache-Control": f"{scope}, {life}", "ETag": tag_of(request)}

"""/data/{id}/analysis.duckdb: the analysis itself, to keep or to read with DuckDB."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from backend.errors import NotFound
from backend.routes.answers import OpenAnalysis, caching, kept_already, opened, speaks_json
from backend.routes.parameters import only


def file(open_analysis: OpenAnalysis):
    """The handler, over a function that opens analyses. Ranges are answered, so a broken download can go on."""

    @speaks_json
    def analysis_file(request: Request) -> Response:
        only(request.query_params, ())
        found = opened(open_analysis, request)
        kept = kept_already(request, found.private)
        if kept is not None:
            return kept
        path = found.analysis.path
        if not path.is_file():
            raise NotFound(f"The file of analysis {found.analysis.id} was deleted a moment ago.")
        # "identity": the blobs are dense numbers; compressing them again would cost seconds and save little.
        headers = {**caching(request, found.private), "Content-Encoding": "identity"}
        return FileResponse(
            path, media_type="application/octet-stream", filename=f"{found.analysis.id}.duckdb", headers=headers
        )

    return analysis_file

"""/data/{id}/{table}.parquet|csv|json: the tables of an analysis, for other programs."""

from __future__ import annotations

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from backend.routes.answers import OpenAnalysis, immutable, kept_already, opened, speaks_json
from backend.routes.parameters import one_of, only
from backend.store import Analysis, Study
from backend.table_files import MEDIA, WRITERS


def tables(open_analysis: OpenAnalysis):
    """The handler, over a function that opens analyses."""

    @speaks_json
    def table(request: Request) -> Response:
        only(request.query_params, ())
        name = request.path_params["table"]
        form = one_of("form", request.path_params["form"], tuple(MEDIA))
        found = opened(open_analysis, request)
        kept = kept_already(request, found.private)
        if kept is not None:
            return kept
        body = WRITERS[form](read(found.analysis, name))
        filename = f"{found.analysis.id}-{name}.{form}"
        return immutable(
            request, body, MEDIA[form], private=found.private, filename=filename, compress=form != "parquet"
        )

    return table


def read(analysis: Analysis | Study, name: str) -> pa.Table:
    """One whole table; NotFound names those there are. The links of heads with exact maps are computed here."""
    computed_here = name == "links" and isinstance(analysis, Analysis)
    return analysis.links() if computed_here else analysis.table(name)

"""/data/{id}/map/{kind}/{layer}/{head}: any window of a head's map, at any zoom.

The answer is one line of JSON, the values row by row (little-endian), and one visibility bit per value, first value in
the highest bit. A window with at most `size` rows and columns comes exact, in float32; a larger one pooled, in float16:
block p of P covers cells [floor(p n / P), floor((p + 1) n / P)) of the n cells of that axis. The header says "sampled"
where a window is so large that its blocks were read in evenly spread rows only.
"""

from __future__ import annotations

import json

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from backend.errors import NoExactMap, NotFound
from backend.map_sizes import MapSize, map_sizes
from backend.routes.answers import OpenAnalysis, immutable, kept_already, opened, speaks_json
from backend.routes.compute import computed
from backend.routes.parameters import one_of, only, size, span, whole
from backend.store import Analysis

PARAMETERS = ("rows", "columns", "size", "how")
MEDIA = "application/vnd.headwater.map"


def map_window(open_analysis: OpenAnalysis):
    """The handler, over a function that opens analyses."""

    @speaks_json
    def window(request: Request) -> Response:
        path, query = request.path_params, request.query_params
        only(query, PARAMETERS)
        layer, head = whole("layer", path["layer"]), whole("head", path["head"])
        how = one_of("how", query.get("how"), ("mean", "max"))
        found = opened(open_analysis, request)
        there = map_size(found.analysis, path["kind"], layer, head)
        rows = span("rows", query.get("rows"), there.queries)
        columns = span("columns", query.get("columns"), there.keys)
        side = size(query.get("size"), (rows.stop - rows.start, columns.stop - columns.start))
        kept = kept_already(request, found.private)
        if kept is not None:
            return kept
        body = computed(answer, found.analysis, path["kind"], layer, head, there, rows, columns, side, how)
        return immutable(request, body, MEDIA, private=found.private)

    return window


def map_size(analysis: Analysis, kind: str, layer: int, head: int) -> MapSize:
    """The size of a head's map; NotFound names what there is."""
    layers = map_sizes(analysis).get(kind)
    if layers is None:
        raise NotFound(f"This analysis has no maps of kind {kind[:40]!r}; it has {', '.join(map_sizes(analysis))}.")
    if layer not in layers:
        raise NotFound(f"There is no layer {layer} with maps; there are {min(layers)} to {max(layers)}.")
    if head >= layers[layer].heads:
        raise NotFound(f"There is no head {head} in layer {layer}; there are 0 to {layers[layer].heads - 1}.")
    return layers[layer]


def answer(
    analysis: Analysis,
    kind: str,
    layer: int,
    head: int,
    there: MapSize,
    rows: slice,
    columns: slice,
    side: int,
    how: str,
) -> bytes:
    """The bytes for one window with at most `side` values per axis."""
    fits = rows.stop - rows.start <= side and columns.stop - columns.start <= side
    try:
        if fits:
            values = analysis.map(layer, head, rows, columns, kind=kind)
            visible = analysis.visible(layer, head, rows, columns, kind=kind)
            return encoded(values.astype("<f4"), visible, rows, columns, there, how, "exact")
        values, made = analysis.picture(layer, head, side, how=how, kind=kind, rows=rows, columns=columns)
    except NoExactMap:
        if (rows, columns) != (slice(0, there.queries), slice(0, there.keys)):
            raise
        values, made = analysis.pooled(layer, head, side, how=how, kind=kind), "pooled"
    return encoded(values.astype("<f2"), ~np.isnan(values), rows, columns, there, how, made)


def encoded(
    values: np.ndarray, visible: np.ndarray, rows: slice, columns: slice, there: MapSize, how: str, made: str
) -> bytes:
    """Header line, values, visibility bits. made: "exact", "pooled" or "sampled"."""
    header = {
        "shape": list(values.shape),
        "rows": [rows.start, rows.stop],
        "columns": [columns.start, columns.stop],
        "map": [there.queries, there.keys],
        "exact": made == "exact",
        "values": made,
        "how": how,
        "dtype": "float32" if made == "exact" else "float16",
        "cells_per_value": [
            round((rows.stop - rows.start) / values.shape[0], 4),
            round((columns.stop - columns.start) / values.shape[1], 4),
        ],
    }
    line = json.dumps(header, separators=(",", ":")).encode()
    return line + b"\n" + values.tobytes() + np.packbits(visible).tobytes()

"""/data/{id}/grid/{kind}/{layer}.png: all heads of one layer as small maps, side by side, for the page of all heads.

/data/{id}/grid.png is that of a layer in the middle, whichever layers there are.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from PIL import Image
from starlette.requests import Request
from starlette.responses import Response

from backend.detected import sinks_of
from backend.errors import NotFound
from backend.map_sizes import MapSize, map_sizes
from backend.routes.answers import OpenAnalysis, immutable, kept_already, opened, speaks_json
from backend.routes.compute import computed
from backend.routes.parameters import BadRequest, one_of, only, whole
from backend.shelf import Opened
from backend.store.decoded import identity

GAP = 2  # transparent pixels between two heads
SIZES = (8, 128, 48)  # least, most and usual pixels per side of a small map
# Anchors from dark to light, those of the large map.
PALETTES = {
    "cividis": "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fdea45",
    "viridis": "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725",
    "greys": "000000 1c1c1c 383838 555555 717171 8d8d8d aaaaaa c6c6c6 e2e2e2 ffffff",
}
SMALL = 256  # tokens; longer maps are drawn in blocks that unite stored ones (a power of two), so nothing is computed
BLEND = 0.12  # share of the ramp that grows out of the page's background
HIDDEN = (128, 128, 128, 150)  # columns of sinks, where they are left out
INVISIBLE = (128, 128, 128, 36)  # cells no query may see: a veil of grey, never the colour of zero


def grid(open_analysis: OpenAnalysis):
    """The handler, over a function that opens analyses."""

    @speaks_json
    def layer_png(request: Request) -> Response:
        query = request.query_params
        only(query, ("size", "how", "palette", "theme", "sinks"))
        kind, layer = request.path_params.get("kind"), request.path_params.get("layer")
        number = None if layer is None else whole("layer", layer)
        size = whole("size", query.get("size", str(SIZES[2])))
        if not SIZES[0] <= size <= SIZES[1]:
            raise BadRequest(f"size: expected {SIZES[0]} to {SIZES[1]} pixels, got {size}.")
        how = one_of("how", query.get("how"), ("mean", "max"))
        palette = one_of("palette", query.get("palette"), tuple(PALETTES))
        theme = one_of("theme", query.get("theme"), ("light", "dark"))
        hide = one_of("sinks", query.get("sinks"), ("show", "hide")) == "hide"
        found = opened(open_analysis, request)
        kept = kept_already(request, found.private)
        if kept is not None:
            return kept
        if kind is None or number is None:
            kind, number = middle(map_sizes(found.analysis))
        body = computed(_png, _Key(found), kind, number, size, how, palette, theme, hide)
        return immutable(request, body, "image/png", private=found.private, compress=False)

    return layer_png


def middle(sizes: Mapping[str, Mapping[int, MapSize]]) -> tuple[str, int]:
    """A kind and a layer that an analysis has: the first kind, the layer in the middle."""
    kind = next(iter(sizes), None)
    if kind is None:
        raise NotFound("This analysis has no layer with maps.")
    layers = sorted(sizes[kind])
    return kind, layers[len(layers) // 2]


class _Key:
    """An opened analysis, equal to another opening of the same file."""

    def __init__(self, found: Opened) -> None:
        self.analysis = found.analysis
        self.file = identity(found.analysis.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.file == self.file

    def __hash__(self) -> int:
        return hash(self.file)


@lru_cache(maxsize=512)
def _png(key: _Key, kind: str, layer: int, size: int, how: str, palette: str, theme: str, hide: bool) -> bytes:
    layers = map_sizes(key.analysis).get(kind)
    if layers is None or layer not in layers:
        raise NotFound(f"This analysis has no maps for kind {kind!r}, layer {layer}.")
    there = layers[layer]
    blocks = size if max(there.queries, there.keys) <= SMALL else 1 << (size.bit_length() - 1)
    maps = [key.analysis.pooled(layer, head, blocks, how=how, kind=kind) for head in range(there.heads)]
    sinks = [sinks_of(key.analysis, layer, head, kind) if hide else () for head in range(there.heads)]
    pictures = zip(maps, sinks, strict=True)
    picture = side_by_side(
        [coloured(one, palette, theme, blocks_of(own, there.keys, one)) for one, own in pictures], size
    )
    out = io.BytesIO()
    Image.fromarray(picture, "RGBA").save(out, "PNG", compress_level=4)
    return out.getvalue()


def blocks_of(keys: tuple[int, ...], n_keys: int, values: np.ndarray) -> list[int]:
    """The columns of a picture that hold some keys: block p of P covers [floor(p n / P), floor((p + 1) n / P))."""
    blocks = values.shape[1]
    return sorted({((key + 1) * blocks - 1) // n_keys for key in keys})


def coloured(values: np.ndarray, palette: str, theme: str, hidden: Sequence[int] = ()) -> np.ndarray:
    """Weights [P, P], NaN where nothing is visible -> RGBA [P, P, 4]. Each head has its own scale: the square root of
    the weight over the head's largest one, so that a sink does not leave the rest blank. hidden: columns that are in
    no colour and in no scale."""
    visible = ~np.isnan(values)
    shown = visible.copy()
    shown[:, list(hidden)] = False
    largest = float(values[shown].max(initial=0.0))
    share = np.sqrt(np.where(shown, values, 0.0) / largest) if largest > 0 else np.zeros_like(values)
    pixels = ramp(palette, theme)[np.minimum(share * 255.999, 255).astype(np.intp)]
    pixels[visible & ~shown] = HIDDEN
    pixels[~visible] = INVISIBLE
    return pixels


@lru_cache(maxsize=8)
def _ramp(palette: str, theme: str) -> bytes:
    anchors = np.array([[int(text[i : i + 2], 16) for i in (0, 2, 4)] for text in PALETTES[palette].split()], float)
    if theme == "light":
        anchors = anchors[::-1]
    steps = np.linspace(0, 1, 256)
    at = np.linspace(0, 1, len(anchors))
    channels = [np.interp(steps, at, anchors[:, channel]) for channel in range(3)]
    alpha = np.minimum(steps / BLEND, 1.0) * 255  # a weight of zero is the background itself
    return np.stack([*channels, alpha], axis=-1).round().astype(np.uint8).tobytes()


def ramp(palette: str, theme: str) -> np.ndarray:
    """256 colours from nothing to the largest weight: uint8 [256, 4], red, green, blue, opacity."""
    return np.frombuffer(_ramp(palette, theme), np.uint8).reshape(256, 4)


def side_by_side(maps: list[np.ndarray], size: int) -> np.ndarray:
    """Pictures of at most size x size pixels, each grown to it by whole pixels, in one row with gaps between."""
    row = np.zeros((size, len(maps) * (size + GAP) - GAP, 4), np.uint8)
    for place, pixels in enumerate(maps):
        across = (np.arange(size) * pixels.shape[1]) // size
        down = (np.arange(size) * pixels.shape[0]) // size
        left = place * (size + GAP)
        row[:, left : left + size] = pixels[down][:, across]
    return row

"""An analysis as one HTML file that opens without a network: chosen heads with zoom and hover, all heads small.

The chosen heads are exact, or pooled: the means and largest weights of at most 512 x 512 blocks, which takes the same
room however long the prompt is. It is built like the hand-out of a lesson: the viewer of the pages, with the weights in
the file in place of the data routes. Every text is escaped; data travel as JSON in which no tag can begin or end; the
file forbids itself to ask anybody for anything.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
from PIL import Image

from backend import statistics
from backend.errors import NoExactMap, Refused
from backend.map_sizes import MapSize, map_sizes
from backend.routes.grid import coloured, side_by_side
from backend.store import Analysis
from pages.shared.exports.lesson_html import HERE, VIEWER, as_json, map_of, message_of, tokens_of, viewer_script
from pages.shared.panels.badge import state_of
from pages.shared.view_state import ViewState

LARGEST = 20_000_000  # bytes
REST = 250_000  # bytes: viewer, sentences
SMALL = 28  # pixels per side of a small map
PER_TOKEN = 60  # bytes of the token table
POOLED = 512  # blocks per side of a pooled map
EXACT_HELD = "the maps of the chosen heads hold all their weights. The wheel zooms, a drag moves, a click keeps a cell."
POOLED_HELD = (
    "the maps of the chosen heads are pooled: a point stands for a block of cells, by their mean or by the largest of "
    "them. The wheel zooms, a drag moves. Single weights are in the analysis itself."
)
Place = tuple[int, int]  # layer, head


def size_of(sizes: dict[int, MapSize], heads: Sequence[Place], n_tokens: int, *, pooled: bool = False) -> int:
    """Bytes of the file before it is made, a little more than it takes: mostly weights, four bytes each, as text.

    Pooled: two bytes for the mean and two for the largest weight of a block."""
    most = POOLED if pooled else max(max(size.queries, size.keys) for size in sizes.values())
    cells = sum(min(sizes[layer].queries, most) * min(sizes[layer].keys, most) for layer, _ in heads)
    small = sum(size.heads for size in sizes.values()) * SMALL * SMALL * 2
    return REST + cells * 11 // 2 + cells // 6 + small + n_tokens * PER_TOKEN


def too_large(needed: int, *, pooled: bool) -> str | None:
    """Why the page is not made, with both numbers; None where it is."""
    if needed <= LARGEST:
        return None
    advice = "Choose fewer heads." if pooled else "Choose fewer heads, or pooled maps."
    return f"The page would take {needed / 1e6:.0f} MB and at most {LARGEST // 1_000_000} MB are made. {advice}"


def analysis_html(analysis: Analysis, kind: str, heads: Sequence[Place], *, title: str, pooled: bool = False) -> str:
    """The file. Refused where it would be larger than 20 MB, NoExactMap for a head whose weights were not kept."""
    sizes = map_sizes(analysis)[kind]
    refusal = too_large(size_of(sizes, heads, len(analysis.tokens_list()), pooled=pooled), pooled=pooled)
    if refusal is not None:
        raise Refused(refusal)
    data: dict[str, dict] = {"maps": {}, "tokens": {analysis.id: tokens_of(analysis)}, "views": {}}
    figures = [figure_html(analysis, kind, layer, head, data, pooled=pooled) for layer, head in heads]
    page = (HERE / "analysis.html").read_text("utf-8")
    for name, value in (
        ("title", escape(title)),
        ("style", style()),
        ("title", escape(title)),
        ("facts", facts_html(analysis)),
        ("held", POOLED_HELD if pooled else EXACT_HELD),
        ("maps", f'<div class="pictures">{"".join(figures)}</div>'),
        ("numbers", numbers_html(analysis, kind, heads)),
        ("overview", overview_html(analysis, kind, sizes)),
        ("prompt", "".join(escape(token.text) for token in analysis.tokens_list())),
        ("data", as_json(data)),
        ("script", viewer_script() + "\n" + (HERE / "lesson.js").read_text("utf-8")),
    ):
        before, mark, after = page.partition(f"<!--{name}-->")
        assert mark, name
        page = before + value + after
    return page


def style() -> str:
    """Colours and type of the hand-outs, and those of the viewer."""
    sheet = (HERE / "lesson.html").read_text("utf-8").split("<style>")[1].split("</style>")[0]
    return sheet.replace("<!--style-->", (VIEWER / "viewer.css").read_text("utf-8"))


def figure_html(analysis: Analysis, kind: str, layer: int, head: int, data: dict, *, pooled: bool) -> str:
    """The place of one head's map, whose weights go into `data`."""
    if not pooled and head not in analysis.exact_heads(layer, kind):
        raise NoExactMap(f"The exact map of head {layer}.{head} was not kept, so it cannot be in the page.")
    message = message_of(analysis, ViewState(), kind, layer, head) | {"exact": not pooled}
    data["maps"][message["map"]] = (pooled_map if pooled else map_of)(analysis, kind, layer, head)
    data["views"][f"head-{layer}-{head}"] = message
    return f'<figure><figcaption>Head {layer}.{head}</figcaption><div id="head-{layer}-{head}"></div></figure>'


def pooled_map(analysis: Analysis, kind: str, layer: int, head: int) -> dict:
    """Mean and largest weight of every block of a head, and which blocks have a visible cell."""
    size = map_sizes(analysis)[kind][layer]
    pictures = {how: analysis.pooled(layer, head, POOLED, how=how, kind=kind) for how in ("mean", "max")}
    visible = np.packbits(~np.isnan(pictures["mean"]))
    encoded = {how: values.astype("<f2").tobytes() for how, values in pictures.items()} | {"visible": visible.tobytes()}
    texts = {name: base64.b64encode(part).decode("ascii") for name, part in encoded.items()}
    return {"shape": list(pictures["mean"].shape), "of": [size.queries, size.keys], **texts}


def facts_html(analysis: Analysis) -> str:
    """Model, tokens, how the numbers were made, and whether they were checked."""
    info = analysis.info
    checks = info.get("checks") if isinstance(info.get("checks"), dict) else {}
    parts = [info.get("model", ""), f"{info.get('n_tokens', 0):,} tokens", info.get("implementation", "")]
    parts += [info.get("dtype", ""), str(info.get("created_at", ""))[:10]]
    parts += [state_of(checks, str(info.get("implementation", "")))]
    return " · ".join(escape(str(part)) for part in parts if part)


def numbers_html(analysis: Analysis, kind: str, heads: Sequence[Place]) -> str:
    """Every statistic of the chosen heads, with its unit; what is undefined is said so."""
    rows = {(row["layer"], row["head"]): row for row in analysis.heads(kind=kind).to_pylist()}
    names = "".join(f"<th>{layer}.{head}</th>" for layer, head in heads)
    lines = []
    for name, statistic in statistics.all().items():
        values = [rows.get(place, {}).get(name) for place in heads]
        cells = "".join(f"<td>{'undefined' if value is None else f'{value:.3g}'}</td>" for value in values)
        said = f"{name.replace('_', ' ')} ({statistic.unit})"
        lines.append(f'<tr><th title="{escape(statistic.caption)}">{escape(said)}</th>{cells}</tr>')
    return f"<table><tr><th></th>{names}</tr>{''.join(lines)}</table>"


def overview_html(analysis: Analysis, kind: str, sizes: dict[int, MapSize]) -> str:
    """All heads as small pictures, a row per layer."""
    lines = []
    for layer, size in sorted(sizes.items()):
        maps = [analysis.pooled(layer, head, SMALL, kind=kind) for head in range(size.heads)]
        picture = side_by_side([coloured(np.asarray(values), "cividis", "light") for values in maps], SMALL)
        out = io.BytesIO()
        Image.fromarray(picture, "RGBA").save(out, "PNG")
        source = base64.b64encode(out.getvalue()).decode("ascii")
        alt = f"Layer {layer}: {size.heads} small maps"
        lines.append(
            f'<div class="layer"><span>{layer}</span><img alt="{alt}" src="data:image/png;base64,{source}"></div>'
        )
    return "".join(lines)

"""A lesson as one HTML file that opens without a network: its sentences, its charts, and maps that zoom.

The maps are drawn by the viewer of the pages, with the weights in the file in place of the data routes. Every text is
escaped; data travel as JSON in which no tag can begin or end.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path

import numpy as np

from backend import statistics, terms
from backend.map_sizes import SIDES, map_sizes
from backend.store import Analysis
from pages.shared.lessons import Lesson, Step
from pages.shared.lessons.masses import bars_of_segments
from pages.shared.lessons.place import view_of
from pages.shared.lessons.text import Piece, blocks, numbers_in
from pages.shared.map_viewer import HERE as VIEWER
from pages.shared.map_viewer import MapView, read_look, script
from pages.shared.panels.sink_keys import sink_keys
from pages.shared.view_state import ViewState

HERE = Path(__file__).parent
Open = Callable[[str], Analysis]
EXPORTED, ADDRESS = "export default function", "function address(path)"
PLACE = re.compile("<!--([a-z]+)-->")  # where a value goes, as often as it stands in the file
TOKEN_COLUMNS = ("side", "position", "label", "text", "is_special")


def lesson_html(lesson: Lesson, open_analysis: Open) -> str:
    """The file. NotFound or Damaged where an analysis of the lesson cannot be read."""
    data: dict[str, dict] = {"maps": {}, "tokens": {}, "views": {}}
    steps = "\n".join(
        step_html(lesson, number, step, open_analysis(step.view.analysis), data)
        for number, step in enumerate(lesson.steps, 1)
    )
    sources = "".join(f"<li>{escape(source)}</li>" for source in lesson.sources)
    page = (HERE / "lesson.html").read_text("utf-8")
    values = {
        "title": escape(lesson.title),
        "question": escape(lesson.question),
        "style": (VIEWER / "viewer.css").read_text("utf-8"),
        "steps": steps,
        "words": words_html(lesson),
        "sources": sources,
        "data": as_json(data),
        "script": viewer_script() + "\n" + (HERE / "lesson.js").read_text("utf-8"),
    }
    assert set(PLACE.findall(page)) == set(values)
    return PLACE.sub(lambda place: values[place[1]], page)


def viewer_script() -> str:
    """The viewer with its two ties to the server cut: where addresses lie, and what draws it."""
    text = script()
    assert text.count(EXPORTED) == text.count(ADDRESS) == 1
    return text.replace(EXPORTED, "const drawViewer = function").replace(ADDRESS, "function addressOnServer(path)")


def as_json(value: object) -> str:
    """JSON that can stand in a script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def step_html(lesson: Lesson, number: int, step: Step, analysis: Analysis, data: dict) -> str:
    """One step: sentences, picture, question, and the answer folded away."""
    parts = [f'<section><h2><span class="number">{number}</span> {escape(step.title)}</h2>', text_html(step.text, step)]
    picture = picture_html(f"{lesson.name}-{number}", step, analysis, data)
    picture = f"<p><em>Look at {escape(step.look)}</em></p>{picture}"
    parts.append("" if step.view.later else picture)
    if step.ask:
        items = "".join(f"<li>{escape(choice)}</li>" for choice in step.choices)
        parts.append(f'<p>{escape(step.ask)}</p><ul class="choices">{items}</ul>')
    if step.reveal:
        answer = f"<p><strong>{escape(step.choices[step.answer])}.</strong></p>" if step.ask else ""
        label = "The answer" if step.ask else "What it says"
        later = picture if step.view.later else ""
        parts.append(f"<details><summary>{label}</summary>{answer}{later}{text_html(step.reveal, step)}</details>")
    numbers = "".join(
        f"<dt>{escape(said)}</dt><dd><code>{escape(step.numbers[name].query)}</code></dd>"
        for name, said in numbers_in(f"{step.text}\n\n{step.reveal}")
    )
    if numbers:
        parts.append(
            f'<details class="small"><summary>Where the numbers come from</summary><dl>{numbers}</dl></details>'
        )
    return "\n".join([*parts, "</section>"])


def text_html(text: str, step: Step) -> str:
    """Sentences of the lesson as HTML."""

    def piece_html(piece: Piece) -> str:
        plain = escape(piece.text)
        if piece.sort == "number":
            return f'<strong class="measured" title="{escape(step.numbers[piece.name].query)}">{plain}</strong>'
        tag = {"strong": "strong", "code": "code"}.get(piece.sort)
        return f"<{tag}>{plain}</{tag}>" if tag else plain

    lines = []
    for block in blocks(text):
        tag = "li" if block.item else "p"
        lines.append(f"<{tag}>{''.join(piece_html(piece) for piece in block.pieces)}</{tag}>")
    return "\n".join(lines)


def words_html(lesson: Lesson) -> str:
    """The definition of every term behind a number."""
    known = {**terms.all(), **statistics.all()}
    used = sorted({number.term for step in lesson.steps for number in step.numbers.values()})
    return "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(known[name].caption)} "
        f"<code>{escape(known[name].formula)}</code></dd>"
        for name in used
    )


def picture_html(name: str, step: Step, analysis: Analysis, data: dict) -> str:
    """The place of a map, or a chart of bars."""
    if step.view.show == "bars":
        return bars_svg(step, analysis)
    data["tokens"].setdefault(analysis.id, tokens_of(analysis))
    view = view_of(ViewState(), step)
    kind = view.kind or next(iter(map_sizes(analysis)))
    heads = [(view.layer, view.head)] + ([step.view.beside] if step.view.show == "pair" else [])
    places = []
    for at, (layer, head) in enumerate(heads):
        message = message_of(analysis, view, kind, layer, head)
        data["maps"][message["map"]] = map_of(analysis, kind, layer, head)
        data["views"][f"{name}-{at}"] = message
        places.append(f'<figure><figcaption>Head {layer}.{head}</figcaption><div id="{name}-{at}"></div></figure>')
    return f'<div class="pictures">{"".join(places)}</div>'


def message_of(analysis: Analysis, view: ViewState, kind: str, layer: int, head: int) -> dict:
    """What the viewer is told, as on the page."""
    size = map_sizes(analysis)[kind][layer]
    query_side, key_side = SIDES[kind]
    return MapView(
        analysis=analysis.id,
        kind=kind,
        layer=layer,
        head=head,
        shape=(size.queries, size.keys),
        exact=True,
        query_side=query_side,
        key_side=key_side,
        segments=tuple(analysis.segments()),
        sinks=sink_keys(analysis, analysis.id, kind, layer, head),
        rows=view.rows,
        columns=view.columns,
        query=view.query,
        key=view.key,
        look=read_look({**dict(view.extra), "hide": view.more("hide") == "1"}),
    ).message()


def map_of(analysis: Analysis, kind: str, layer: int, head: int) -> dict:
    """All weights of a head, and which cells are visible."""
    weights = analysis.map(layer, head, kind=kind).astype("<f4")
    visible = np.packbits(analysis.visible(layer, head, kind=kind))
    encoded = [base64.b64encode(part.tobytes()).decode("ascii") for part in (weights, visible)]
    return {"shape": list(weights.shape), "weights": encoded[0], "visible": encoded[1]}


def tokens_of(analysis: Analysis) -> dict:
    """The token table as the data route gives it, with the columns that the viewer reads."""
    rows = [[getattr(token, name) for name in TOKEN_COLUMNS] for token in analysis.tokens_list()]
    return {"columns": list(TOKEN_COLUMNS), "rows": rows}


def bars_svg(step: Step, analysis: Analysis) -> str:
    """The bars of a step, drawn without a library."""
    chart = step.view.chart
    if "sql" in chart:
        rows = analysis.sql(chart["sql"]).to_pylist()
    else:
        rows = bars_of_segments(analysis, chart["segments"], chart["rows"], chart.get("head"), chart.get("marked"))
    width, high, low = 720 / len(rows), 40, 300
    top = max(max(row["value"], row.get("uniform") or 0) for row in rows) or 1
    parts = [f'<text x="0" y="18" class="name">{escape(chart["title"])}</text>']
    for at, row in enumerate(rows):
        x, y = at * width, low - (low - high) * row["value"] / top
        said = f"{100 * row['value']:.3g} %" if chart.get("percent") else f"{row['value']:.3g}"
        sort = "bar marked" if row.get("marked") else "bar"
        parts.append(
            f'<rect class="{sort}" x="{x + 8:.1f}" y="{y:.1f}" width="{width - 16:.1f}" height="{low - y:.1f}"/>'
        )
        parts.append(f'<text x="{x + width / 2:.1f}" y="{y - 4:.1f}" class="middle">{said}</text>')
        parts.append(f'<text x="{x + width / 2:.1f}" y="{low + 18}" class="middle">{escape(str(row["label"]))}</text>')
        if row.get("uniform") is not None:
            line = low - (low - high) * row["uniform"] / top
            parts.append(f'<line class="even" x1="{x:.1f}" x2="{x + width:.1f}" y1="{line:.1f}" y2="{line:.1f}"/>')
    return f'<svg viewBox="0 0 720 330" role="img" aria-label="{escape(step.look)}">{"".join(parts)}</svg>'

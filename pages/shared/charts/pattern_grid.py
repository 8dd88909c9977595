"""The pattern of every head as a coloured letter: layers down, heads across."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

PICKED = "picked"  # name of the selection a click makes; its points carry `layer` and `head`
SELECTED_COLOUR = "#e4572e"
ROOM = 380  # pixels for the rows
LEAST, MOST = 11, 22  # pixels of a cell
# name -> letter, colour; the colours differ in lightness and for the common colour deficiencies
LOOK = {
    "local": ("L", "#0072b2"),
    "diagonal": ("D", "#56b4e9"),
    "a_shape": ("A", "#e69f00"),
    "vertical_slash": ("V", "#cc79a7"),
    "block": ("B", "#009e73"),
    "dense": ("-", "#8a8f98"),
}


def pattern_grid(
    rows: Sequence[dict], words: dict[str, str], *, selected: tuple[int, int], retained: str, fade: str | None = None
) -> alt.LayerChart:
    """rows: layer, head, pattern, retained (share or None). words: pattern -> name. retained: what that share is.

    fade: "kept" draws a cell the fainter the smaller its share is.
    """
    cells = [
        {
            "layer": row["layer"],
            "head": row["head"],
            "pattern": words[row["pattern"]],
            "letter": LOOK[row["pattern"]][0],
            "kept": row["retained"],
        }
        for row in rows
    ]
    layers = sorted({row["layer"] for row in rows})
    size = min(MOST, max(LEAST, ROOM // max(1, len(layers))))
    x = alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0))
    y = alt.Y("layer:O", title="layer", scale=alt.Scale(domain=layers))
    names = [words[name] for name in LOOK]
    base = alt.Chart(data_of(cells)).encode(x=x, y=y)
    rects = (
        base.mark_rect(cursor="pointer", stroke="#80808055", strokeWidth=0.5)
        .encode(
            color=alt.Color(
                "pattern:N",
                title=None,
                scale=alt.Scale(domain=names, range=[colour for _, colour in LOOK.values()]),
                legend=alt.Legend(orient="top", columns=3, labelLimit=140),
            ),
            opacity=alt.Opacity(f"{fade}:Q", scale=alt.Scale(domain=[0, 1], range=[0.1, 1]), legend=None)
            if fade
            else alt.value(1),
            tooltip=[
                alt.Tooltip("layer:O", title="layer"),
                alt.Tooltip("head:O", title="head"),
                alt.Tooltip("pattern:N", title="pattern"),
                alt.Tooltip("kept:Q", title=retained, format=".3~p"),
            ],
        )
        .add_params(alt.selection_point(name=PICKED, fields=["layer", "head"], on="click"))
    )
    letters = base.mark_text(fontSize=min(11, size - 2), color="#10151c", cursor="pointer").encode(text="letter:N")
    frame = alt.Chart(data_of([{"layer": selected[0], "head": selected[1]}]))
    frame = frame.mark_rect(filled=False, stroke=SELECTED_COLOUR, strokeWidth=3).encode(x=x, y=y)
    return alt.layer(rects, letters, frame).properties(height=alt.Step(size))

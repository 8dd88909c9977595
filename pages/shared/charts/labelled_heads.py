"""Grid of heads by label: layers down, heads across, the first label as colour and letters, all of them on hover."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from pages.shared.charts.rows import data_of

PICKED = "picked"  # name of the selection a click makes; its points carry `layer` and `head`
SELECTED_COLOUR = "#e4572e"
# Kept apart by the three common colour deficiencies; the sinks' colour is that of every page.
COLOURS = ("#d0611c", "#0072b2", "#007a58", "#b0417f", "#7a5f00", "#44505c", "#6a51a3", "#8080802e")
CELL = 18  # pixels
NONE = "no label"


def labelled_heads(
    heads: Sequence[dict], labels: Sequence[str], *, layers: Sequence[int], most: int, selected: tuple[int, int]
) -> alt.LayerChart:
    """heads: {layer, head, label, labels}: `label` is one of `labels` or NONE, `labels` what is shown on hover."""
    names = [*labels, NONE]
    cells = [{**one, "short": "" if one["label"] == NONE else one["label"][:2]} for one in heads]
    x = alt.X("head:O", title="head", scale=alt.Scale(domain=list(range(most))), axis=alt.Axis(labelAngle=0))
    y = alt.Y("layer:O", title="layer", scale=alt.Scale(domain=[int(layer) for layer in layers]))
    base = alt.Chart(data_of(cells)).encode(x=x, y=y)
    tooltip = [
        alt.Tooltip("layer:O", title="layer"),
        alt.Tooltip("head:O", title="head"),
        alt.Tooltip("labels:N", title="labels"),
    ]
    rects = base.mark_rect(cursor="pointer", stroke="#80808040").encode(
        color=alt.Color(
            "label:N",
            title=None,
            scale=alt.Scale(domain=names, range=[*COLOURS[: len(labels)], COLOURS[-1]]),
            legend=alt.Legend(orient="top", columns=3),
        ),
        tooltip=tooltip,
    )
    rects = rects.add_params(alt.selection_point(name=PICKED, fields=["layer", "head"], on="click"))
    texts = base.mark_text(fontSize=9, fontWeight="bold", color="#ffffff").encode(text="short:N", tooltip=tooltip)
    frame = alt.Chart(data_of([{"layer": selected[0], "head": selected[1]}]))
    frame = frame.mark_rect(filled=False, stroke=SELECTED_COLOUR, strokeWidth=2.5).encode(x=x, y=y)
    return alt.layer(rects, texts, frame).properties(height=alt.Step(CELL))

"""Heat chart: one value per head, layers down, heads across."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of

PICKED = "picked"  # name of the selection a click makes; its points carry `layer` and `head`
SELECTED_COLOUR = "#e4572e"
CELL = 18  # pixels


def layer_head_heat(
    layers: Sequence[int],
    values: np.ndarray,
    *,
    title: str,
    selected: tuple[int, int] | None = None,
    palette: str = "cividis",
) -> alt.LayerChart:
    """values: [layers, heads] from 0 up; NaN where undefined: such a cell is left blank. Colours begin at 0.

    The selected head, (layer, head), has a frame.
    """
    cells = [
        {"layer": int(layer), "head": head, "value": float(value)}
        for layer, row in zip(layers, values, strict=True)
        for head, value in enumerate(row)
        if np.isfinite(value)
    ]
    blank = values.size - len(cells)
    note = f"; {blank} undefined (blank)" if blank else ""
    heads = list(range(values.shape[1]))
    x = alt.X("head:O", title="head", scale=alt.Scale(domain=heads), axis=alt.Axis(labelAngle=0))
    y = alt.Y("layer:O", title="layer", scale=alt.Scale(domain=[int(layer) for layer in layers]))
    top = max((cell["value"] for cell in cells), default=1.0) or 1.0
    heat = (
        alt.Chart(data_of(cells))
        .mark_rect(cursor="pointer")
        .encode(
            x=x,
            y=y,
            color=alt.Color("value:Q", title=title, scale=alt.Scale(scheme=palette, domain=[0.0, top])),
            tooltip=[
                alt.Tooltip("layer:O", title="layer"),
                alt.Tooltip("head:O", title="head"),
                alt.Tooltip("value:Q", title=title, format=".4~g"),
            ],
        )
        .add_params(alt.selection_point(name=PICKED, fields=["layer", "head"], on="click"))
    )
    chosen = [{"layer": selected[0], "head": selected[1]}] if selected is not None else []
    frame = alt.Chart(data_of(chosen)).mark_rect(filled=False, stroke=SELECTED_COLOUR, strokeWidth=2)
    frame = frame.encode(x=x, y=y)
    return alt.layer(heat, frame).properties(
        height=alt.Step(CELL), title=alt.TitleParams(f"{title}{note}", anchor="start", fontSize=12)
    )

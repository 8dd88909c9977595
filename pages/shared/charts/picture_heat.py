"""Weights of a picture's patches as heat over the picture, or over an empty grid where the picture was not kept."""

from __future__ import annotations

import altair as alt
import numpy as np

from pages.shared.charts.rows import data_of

SIDE = 380  # pixels of the longer side
VEIL = [0.1, 0.85]  # how much of the picture the heat covers, from the least to the largest weight
UNSEEN_COLOUR, CHOSEN_COLOUR = "#9a9a9a", "#e8590c"
PICKED = "patch"


def picture_heat(
    weights: np.ndarray,
    visible: np.ndarray,
    *,
    picture: str | None,
    palette: str,
    chosen: tuple[int, int] | None = None,
    title: str = "weight",
) -> alt.LayerChart:
    """weights, visible: [rows, columns] of patches; picture: its address; chosen: the patch that the weights are from.

    A colour is the square root of a weight. The selection PICKED holds the row and column of a clicked patch.
    """
    rows, columns = weights.shape
    cells = [
        {"row": r, "column": c, "weight": float(weights[r, c]), "root": float(np.sqrt(weights[r, c]))}
        for r, c in zip(*np.nonzero(visible & np.isfinite(weights)), strict=True)
    ]
    unseen = [
        {"row": int(r), "column": int(c), "why": "not visible"} for r, c in zip(*np.nonzero(~visible), strict=True)
    ]
    for cell in cells:
        cell |= {"row": int(cell["row"]), "column": int(cell["column"])}
    top = max((cell["root"] for cell in cells), default=1.0) or 1.0
    layers = []
    if picture is not None:
        whole = alt.Chart(data_of([{}])).mark_image(
            url=picture, width=alt.expr("width"), height=alt.expr("height"), aspect=False
        )
        layers.append(whole.encode(x=alt.value(alt.expr("width / 2")), y=alt.value(alt.expr("height / 2"))))
    layers.append(squares(unseen, rows, columns).mark_rect(color=UNSEEN_COLOUR, opacity=0.3))
    layers[-1] = layers[-1].encode(tooltip=[*names(), alt.Tooltip("why:N", title=title)])
    heat = squares(cells, rows, columns).mark_rect(stroke="#80808040", strokeWidth=0.5)
    veil = alt.Scale(domain=[0, top], range=VEIL if picture else [1, 1])
    colour = alt.Color(
        "root:Q",
        title=f"√ {title}",
        scale=alt.Scale(scheme=palette, domain=[0, top]),
        legend=alt.Legend(format="~g", gradientLength=140),
    )
    click = alt.selection_point(name=PICKED, fields=["row", "column"], on="click", toggle=False)
    heat = heat.encode(color=colour, opacity=alt.Opacity("root:Q", scale=veil, legend=None))
    heat = heat.encode(tooltip=[*names(), alt.Tooltip("weight:Q", title=title, format=".4~g")])
    layers.append(heat.add_params(click))
    if chosen is not None:
        mark = [{"row": chosen[0], "column": chosen[1]}]
        layers.append(squares(mark, rows, columns).mark_rect(fillOpacity=0, stroke=CHOSEN_COLOUR, strokeWidth=3))
    scale = SIDE / max(rows, columns)
    size = {"width": round(columns * scale), "height": round(rows * scale)}
    return alt.layer(*layers).properties(**size, autosize="pad")  # patches keep their shape


def names() -> list[alt.Tooltip]:
    return [alt.Tooltip("row:Q", title="row of patches"), alt.Tooltip("column:Q", title="column of patches")]


def squares(values: list[dict], rows: int, columns: int) -> alt.Chart:
    """Patches at their places, the first row above."""
    axis = alt.Axis(tickMinStep=1, format="d", grid=False)
    return (
        alt.Chart(data_of(values))
        .transform_calculate(right="datum.column + 1", below="datum.row + 1")
        .encode(
            x=alt.X("column:Q", title="column of patches", axis=axis, scale=alt.Scale(domain=[0, columns], nice=False)),
            x2="right:Q",
            y=alt.Y("row:Q", title="row of patches", axis=axis, scale=alt.Scale(domain=[rows, 0], nice=False)),
            y2="below:Q",
        )
    )

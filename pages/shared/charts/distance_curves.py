"""Curves over distance on a logarithmic axis: the chosen one thick, others thin, baselines dashed, fits dotted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np

from pages.shared.charts.numbers import PLAIN
from pages.shared.charts.rows import data_of

CHOSEN_COLOUR, THIN_COLOUR, BASELINE_COLOUR, FIT_COLOURS = "#e4572e", "#8fa3bf", "#808080", ("#3b6ea5", "#2f8f6b")
BASE_COLOURS = ("#3b6ea5", "#2f8f6b", "#a05195", "#c9a227", "#5f6b7a", "#d98a3d")
RULE_COLOUR = "#808080"
FEW = 40  # up to so many points have dots
DASHES = {"chosen": [1, 0], "thin": [1, 0], "baseline": [5, 3], "fit": [2, 2], "base": [1, 0]}
WIDTHS = {"chosen": 2.6, "thin": 0.7, "baseline": 1.6, "fit": 1.8, "base": 1.3}


@dataclass(frozen=True, eq=False)
class Curve:
    """One line. What is not finite is left out (on a logarithmic y axis also what is not above 0)."""

    name: str
    x: np.ndarray  # distances from 1 on
    y: np.ndarray
    style: str  # key of DASHES
    colour: str


def distance_curves(
    curves: Sequence[Curve],
    *,
    title: str,
    domain: tuple[float, float],
    x_title: str = "distance (tokens)",
    log_y: bool = False,
    log_x: bool = True,
    mark: tuple[float, str] | None = None,
    height: int = 230,
) -> alt.LayerChart:
    """domain: of the x axis. mark: (x, what it is), a dashed vertical line."""
    scale = alt.Scale(type="log", domain=list(domain), nice=False) if log_x else alt.Scale(domain=list(domain))
    x = alt.X("x:Q", title=x_title, scale=scale, axis=alt.Axis(tickCount=8, labelOverlap=True))
    axis = alt.Axis(tickCount=5, format=PLAIN)
    y = alt.Y("y:Q", title=title, scale=alt.Scale(type="log") if log_y else alt.Scale(zero=False), axis=axis)
    layers = [_line(curve, x, y, log_y, title) for curve in sorted(curves, key=lambda one: one.style != "thin")]
    legend = {curve.name: curve.colour for curve in curves if curve.style != "thin"}
    if mark is not None and domain[0] <= mark[0] <= domain[1]:
        rule = alt.Chart(data_of([{"x": mark[0], "what": mark[1]}]))
        tooltip = [alt.Tooltip("what:N", title="mark"), alt.Tooltip("x:Q", title="tokens", format=",")]
        layers.append(rule.mark_rule(color=RULE_COLOUR, strokeDash=[2, 4], size=1.5).encode(x=x, tooltip=tooltip))
    chart = alt.layer(*layers).properties(height=height)
    return chart.properties(title=_legend(title, legend))


def _line(curve: Curve, x: alt.X, y: alt.Y, log_y: bool, title: str) -> alt.Chart:
    good = np.isfinite(curve.x) & np.isfinite(curve.y) & (curve.x > 0) & ((curve.y > 0) | (not log_y))
    rows = [
        {"x": float(a), "y": float(b), "what": curve.name} for a, b in zip(curve.x[good], curve.y[good], strict=True)
    ]
    dots = alt.OverlayMarkDef(color=curve.colour) if curve.style == "chosen" and len(rows) <= FEW else False
    chart = alt.Chart(data_of(rows)).mark_line(
        color=curve.colour, strokeDash=DASHES[curve.style], size=WIDTHS[curve.style], point=dots
    )
    return chart.encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("what:N", title="curve"),
            alt.Tooltip("x:Q", title="at", format=",.4~g"),
            alt.Tooltip("y:Q", title=title, format=".4~g"),
        ],
    )


def _legend(title: str, legend: dict[str, str]) -> alt.TitleParams:
    """The names of the lines stand above the picture; each has its own dash and can be pointed at."""
    return alt.TitleParams(title, subtitle=[" · ".join(legend)], anchor="start", fontSize=12, subtitleFontSize=11)
